package bolt11

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/payments"
)

// testKey signs all invoices made here; it is the key of the specification's
// examples.
func testKey(t testing.TB) *btcec.PrivateKey {
	raw, err := hex.DecodeString("e126f68f7eafcc8b74f54d269fe206be715000f94dac067d1c04a8ca3b2db734")
	if err != nil {
		t.Fatal(err)
	}
	key, _ := btcec.PrivKeyFromBytes(raw)
	return key
}

func signWith(key *btcec.PrivateKey) func([32]byte) ([65]byte, error) {
	return func(hash [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil
	}
}

// raw is one tagged field as it is to stand in the invoice, valid or not.
type raw struct {
	kind   byte
	groups []byte
}

func text(kind byte, b []byte) raw {
	groups, err := bech32.ConvertBits(b, 8, 5, true)
	if err != nil {
		panic(err)
	}
	return raw{kind, groups}
}

// plain are the fields that an invoice needs.
func plain() []raw {
	return []raw{
		text(fieldPaymentHash, bytes.Repeat([]byte{1}, 32)),
		text(fieldPaymentSecret, bytes.Repeat([]byte{2}, 32)),
		text(fieldDescription, []byte("x")),
	}
}

// craft signs an invoice of the given fields. change, if any, edits the 65
// bytes R, S, recovery id.
func craft(t testing.TB, hrp string, fields []raw, change func(sig []byte)) string {
	t.Helper()
	var groups []byte
	for _, f := range fields {
		groups = append(groups, f.kind, byte(len(f.groups)>>5), byte(len(f.groups)&31))
		groups = append(groups, f.groups...)
	}
	return craftGroups(t, hrp, groups, change)
}

// craftGroups does the same for fields that are written out already.
func craftGroups(t testing.TB, hrp string, fields []byte, change func(sig []byte)) string {
	t.Helper()
	groups := append(paddedGroups(1_700_000_000, timestampGroups), fields...)
	hash, err := signatureHash(hrp, groups)
	if err != nil {
		t.Fatal(err)
	}
	compact := ecdsa.SignCompact(testKey(t), hash[:], true)
	sig := append(slices.Clone(compact[1:]), compact[0]-31)
	if change != nil {
		change(sig)
	}
	tail, err := bech32.ConvertBits(sig, 8, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bech32.Encode(hrp, append(groups, tail...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFields changes one thing at a time in an invoice that is accepted.
func TestFields(t *testing.T) {
	pubkey := testKey(t).PubKey().SerializeCompressed()
	other := bytes.Repeat([]byte{9}, 32)
	groups := func(kind byte, g ...byte) raw { return raw{kind, g} }
	shifted := func(r raw) raw { // one bit of padding set
		g := slices.Clone(r.groups)
		g[len(g)-1] |= 1
		return raw{r.kind, g}
	}
	hop := append(slices.Clone(pubkey), make([]byte, 18)...)
	cases := []struct {
		name   string
		fields []raw
		want   error
	}{
		{"as is", plain(), nil},
		{"no p", plain()[1:], ErrMissing},
		{"no s", append(plain()[:1:1], plain()[2]), ErrMissing},
		{"no d or h", plain()[:2], ErrMissing},
		{"d and h", append(plain(), text(fieldDescriptionHash, other)), ErrField},
		{"h for d", append(plain()[:2], text(fieldDescriptionHash, other)), nil},
		{"short p alone", append(plain()[1:], groups(fieldPaymentHash, make([]byte, 51)...)), ErrMissing},
		{"long s alone", append(plain()[:1:1], plain()[2], groups(fieldPaymentSecret, make([]byte, 53)...)), ErrMissing},
		{"wrong length, then right", append([]raw{groups(fieldPaymentHash, make([]byte, 53)...)}, plain()...), nil},
		{"padding of p", append([]raw{shifted(plain()[0])}, plain()[1:]...), ErrField},
		{"padding of d", append(plain()[:2], shifted(text(fieldDescription, []byte("x")))), ErrField},
		{"a whole group of padding in d", append(plain()[:2], groups(fieldDescription, 1, 0, 0)), ErrField},
		{"padding of m", append(plain(), shifted(text(fieldMetadata, []byte("x")))), ErrField},
		{"d not UTF-8", append(plain()[:2], text(fieldDescription, []byte("\xff"))), ErrField},
		{"d empty", append(plain()[:2], text(fieldDescription, nil)), nil},
		{"x with leading zero", append(plain(), groups(fieldExpiry, 0, 1)), ErrField},
		{"x empty", append(plain(), groups(fieldExpiry)), ErrField},
		{"x beyond time", append(plain(), groups(fieldExpiry, 9, 0, 0, 0, 0, 0, 0)), ErrField},
		{"x of 13 groups", append(plain(), groups(fieldExpiry, bytes.Repeat([]byte{31}, 13)...)), ErrField},
		{"c with leading zero", append(plain(), groups(fieldMinFinalCLTV, 0, 1)), ErrField},
		{"c beyond 32 bits", append(plain(), groups(fieldMinFinalCLTV, 4, 0, 0, 0, 0, 0, 0)), ErrField},
		{"c of 32 bits", append(plain(), groups(fieldMinFinalCLTV, 3, 31, 31, 31, 31, 31, 31)), nil},
		{"9 with leading zero", append(plain(), groups(fieldFeatures, 0, 2)), ErrField},
		{"9 odd unknown", append(plain(), groups(fieldFeatures, 2, 0, 0, 0, 0)), nil},
		{"9 even unknown", append(plain(), groups(fieldFeatures, 1, 0, 0, 0, 0)), ErrFeature},
		{"9 bit 0", append(plain(), groups(fieldFeatures, 1)), ErrFeature},
		{"9 mpp required", append(plain(), groups(fieldFeatures, 2, 16, 8, 0)), nil},
		{"n that signed", append(plain(), text(fieldPayee, pubkey)), nil},
		{"n that did not sign", append(plain(), text(fieldPayee, unhex(t, "029e03a901b85534ff1e92c43c74431f7ce72046060fcf7a95c37e148f78c77255"))), ErrSignature},
		{"n not on the curve", append(plain(), text(fieldPayee, append([]byte{2}, bytes.Repeat([]byte{0xff}, 32)...))), ErrField},
		{"n of a wrong length", append(plain(), text(fieldPayee, pubkey[:32])), nil},
		{"f empty", append(plain(), groups(fieldFallback)), ErrField},
		{"f unknown version, bad padding", append(plain(), groups(fieldFallback, 19, 31)), nil},
		{"f version 0 of 19 bytes", append(plain(), groups(fieldFallback, append([]byte{0}, text(0, make([]byte, 19)).groups...)...)), ErrField},
		{"f version 17 of 32 bytes", append(plain(), groups(fieldFallback, append([]byte{17}, text(0, make([]byte, 32)).groups...)...)), ErrField},
		{"f version 1 of 20 bytes", append(plain(), groups(fieldFallback, append([]byte{1}, text(0, make([]byte, 20)).groups...)...)), ErrField},
		{"f version 5 of 40 bytes", append(plain(), groups(fieldFallback, append([]byte{5}, text(0, make([]byte, 40)).groups...)...)), nil},
		{"f version 5 of 41 bytes", append(plain(), groups(fieldFallback, append([]byte{5}, text(0, make([]byte, 41)).groups...)...)), ErrField},
		{"f padding", append(plain(), groups(fieldFallback, append([]byte{17}, shifted(text(0, make([]byte, 21))).groups...)...)), ErrField},
		{"r of one hop", append(plain(), text(fieldRoute, hop)), nil},
		{"r empty", append(plain(), text(fieldRoute, nil)), ErrField},
		{"r cut off", append(plain(), text(fieldRoute, hop[:50])), ErrField},
		{"r with a bad key", append(plain(), text(fieldRoute, make([]byte, hopBytes))), ErrField},
		{"unknown type", append(plain(), groups(31, 1, 2, 3)), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inv, err := Decode(craft(t, "lnbc1m", c.fields, nil))
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && inv.Payee != hex.EncodeToString(pubkey) {
				t.Errorf("payee %s", inv.Payee)
			}
		})
	}
}

// TestFirstCounts: of a field that stands twice the first is taken.
func TestFirstCounts(t *testing.T) {
	fields := append(plain(),
		text(fieldPaymentHash, make([]byte, 32)), text(fieldDescription, []byte("y")),
		raw{fieldExpiry, []byte{7}}, raw{fieldExpiry, []byte{8}})
	inv, err := Decode(craft(t, "lnbc", fields, nil))
	if err != nil {
		t.Fatal(err)
	}
	if inv.PaymentHash[0] != 1 || inv.Description != "x" || inv.Expiry.Seconds() != 7 {
		t.Errorf("got %+v", inv)
	}
}

func TestCutOffField(t *testing.T) {
	good := craft(t, "lnbc", plain(), nil)
	hrp, data, err := bech32.DecodeNoLimit(good)
	if err != nil {
		t.Fatal(err)
	}
	signed := len(data) - signatureGroups
	for name, extra := range map[string][]byte{"type alone": {1}, "no length": {1, 1}, "longer than the data": {13, 31, 31, 1}} {
		s, err := bech32.Encode(hrp, slices.Concat(data[:signed], extra, data[signed:]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(s); !errors.Is(err, ErrField) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestSignature(t *testing.T) {
	withKey := append(plain(), text(fieldPayee, testKey(t).PubKey().SerializeCompressed()))
	highS := func(sig []byte) {
		var s btcec.ModNScalar
		s.SetByteSlice(sig[32:64])
		b := s.Negate().Bytes()
		copy(sig[32:64], b[:])
		sig[64] ^= 1 // the same key is recovered from the mirrored S
	}
	zero := func(from, to int) func([]byte) { return func(sig []byte) { clear(sig[from:to]) } }
	cases := []struct {
		name   string
		fields []raw
		change func([]byte)
		want   error
	}{
		{"high S, recovered", plain(), highS, nil},
		{"high S with n", withKey, highS, ErrSignature},
		{"recovery id 4", plain(), func(sig []byte) { sig[64] = 4 }, ErrSignature},
		{"recovery id 4 with n", withKey, func(sig []byte) { sig[64] = 4 }, ErrSignature},
		{"r zero", plain(), zero(0, 32), ErrSignature},
		{"r zero with n", withKey, zero(0, 32), ErrSignature},
		{"s zero with n", withKey, zero(32, 64), ErrSignature},
		{"r over the order with n", withKey, func(sig []byte) { copy(sig, bytes.Repeat([]byte{0xff}, 32)) }, ErrSignature},
		{"one bit of s with n", withKey, func(sig []byte) { sig[63] ^= 1 }, ErrSignature},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inv, err := Decode(craft(t, "lnbc", c.fields, c.change))
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && inv.Payee != hex.EncodeToString(testKey(t).PubKey().SerializeCompressed()) {
				t.Errorf("payee %s", inv.Payee)
			}
		})
	}
}

// TestAnyChangeIsNoticed: after a change of any bit the invoice is refused or
// names another payee (n is no longer read, and some other key is recovered).
func TestAnyChangeIsNoticed(t *testing.T) {
	key := testKey(t).PubKey().SerializeCompressed()
	payee := hex.EncodeToString(key)
	good := craft(t, "lnbc2500u", append(plain(), text(fieldPayee, key)), nil)
	hrp, data, err := bech32.DecodeNoLimit(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1
		s, err := bech32.Encode(hrp, bad)
		if err != nil {
			t.Fatal(err)
		}
		// The last group's bit is the lowest of the recovery id, which a
		// signature with n does not need.
		if inv, err := Decode(s); err == nil && inv.Payee == payee && i != len(data)-1 {
			t.Errorf("bit 0 of group %d may be changed", i)
		}
	}
	for _, hrp := range []string{"lnbc2501u", "lntb2500u", "lnbc"} {
		s, err := bech32.Encode(hrp, data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(s); err == nil {
			t.Errorf("the prefix may become %s", hrp)
		}
	}
}

func TestText(t *testing.T) {
	good := craft(t, "lnbc", plain(), nil)
	hrp, data, err := bech32.DecodeNoLimit(good)
	if err != nil {
		t.Fatal(err)
	}
	bech32m, err := bech32.EncodeM(hrp, data)
	if err != nil {
		t.Fatal(err)
	}
	long := plain()
	for range 12 {
		long = append(long, raw{31, make([]byte, 1000)})
	}
	cases := []struct {
		name, text string
		want       error
	}{
		{"upper case", strings.ToUpper(good), nil},
		{"mixed case", strings.ToUpper(good[:9]) + good[9:], ErrBech32},
		{"bech32m", bech32m, ErrBech32},
		{"too long", craft(t, "lnbc", long, nil), ErrTooLong},
		{"a URI", "lightning:" + good, ErrBech32},
		{"space after", good + " ", ErrBech32},
		{"empty", "", ErrBech32},
		{"nothing but a prefix", "lnbc1", ErrBech32},
		{"other coin", craft(t, "lnltc", plain(), nil), ErrPrefix},
		{"no ln", craft(t, "bc", plain(), nil), ErrPrefix},
		{"no network", craft(t, "ln", plain(), nil), ErrPrefix},
		{"letters after the amount", craft(t, "lnbc1mm", plain(), nil), ErrAmount},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Decode(c.text); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestPrefixAndAmount(t *testing.T) {
	cases := []struct {
		hrp     string
		network payments.Network
		msats   int64
		want    error
	}{
		{"lnbc", payments.Mainnet, 0, nil},
		{"lntb1", payments.Testnet, 100_000_000_000, nil},
		{"lntbs2500u", payments.Signet, 250_000_000, nil},
		{"lnbcrt20m", payments.Regtest, 2_000_000_000, nil},
		{"lnsb7n", payments.Simnet, 700, nil},
		{"lnplay12340p", payments.Play, 1234, nil},
		{"lnbc10p", payments.Mainnet, 1, nil},
		{"lnbc1p", payments.Mainnet, 0, ErrAmount},
		{"lnbc0u", payments.Mainnet, 0, ErrAmount},
		{"lnbc01u", payments.Mainnet, 0, ErrAmount},
		{"lnbc1k", payments.Mainnet, 0, ErrAmount},
		{"lnbc1.5m", payments.Mainnet, 0, ErrAmount},
		{"lnbc1-", payments.Mainnet, 0, ErrAmount},
		{"lnbc90071", payments.Mainnet, 9_007_100_000_000_000, nil},
		{"lnbc90072", payments.Mainnet, 0, ErrAmount},
		{"lnbc90071992547409910p", payments.Mainnet, payments.MaxMsats, nil},
		{"lnbc90071992547409920p", payments.Mainnet, 0, ErrAmount},
		{"lnbc99999999999999999999n", payments.Mainnet, 0, ErrAmount},
		{"lnbc18446744073709551617n", payments.Mainnet, 0, ErrAmount},
		{"lnpl1m", payments.Play, 0, ErrPrefix},
		{"lnplayer1m", payments.Play, 0, ErrPrefix},
	}
	for _, c := range cases {
		t.Run(c.hrp, func(t *testing.T) {
			inv, err := Decode(craft(t, c.hrp, plain(), nil))
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && (inv.Network != c.network || inv.AmountMsats != c.msats) {
				t.Errorf("got %s %d", inv.Network, inv.AmountMsats)
			}
		})
	}
}
