package tapassets

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/payments"
)

// records of a good address, by type.
func records() map[int][]byte {
	_, pub := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))
	key := pub.SerializeCompressed()
	return map[int][]byte{
		0: {1}, 2: {0}, 4: bytes.Repeat([]byte{0xab}, 32), 6: key, 8: key, 10: {0xfd, 0x01, 0x00},
		12: []byte("universerpc://example.com:443"),
	}
}

func encode(t testing.TB, hrp string, order []int, r map[int][]byte) string {
	t.Helper()
	var stream []byte
	for _, kind := range order {
		if v, ok := r[kind]; ok {
			stream = append(append(stream, byte(kind), byte(len(v))), v...)
		}
	}
	groups, err := bech32.ConvertBits(stream, 8, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := bech32.EncodeM(hrp, groups)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var ascending = []int{0, 2, 4, 5, 6, 7, 8, 9, 10, 12, 14}

func TestAddressIsReadAndRefused(t *testing.T) {
	r := records()
	r[5], r[7] = r[6], []byte("odd, so passed over")
	s := encode(t, "tapbc", ascending, r)
	a, err := Parse(s)
	want := Address{
		Network: payments.Mainnet, Version: 1, AssetID: AssetID(r[4]), GroupKey: hex.EncodeToString(r[6]), ScriptKey: hex.EncodeToString(r[6]),
		InternalKey: hex.EncodeToString(r[6]), Amount: 256, ProofCourier: string(r[12]),
	}
	if err != nil || a != want {
		t.Errorf("%+v, %v\nwant %+v", a, err, want)
	}
	if !IsAddress(s) || !IsAddress(strings.ToUpper(s)) || IsAddress("bc1qw508d6") || IsAddress("tapbc") {
		t.Error("IsAddress")
	}
	err = Refuse(s)
	if !errors.Is(err, ErrNoBackend) || !errors.Is(err, payments.ErrUnsupported) || !payments.NeverSent(err) || !strings.Contains(err.Error(), "256 units of asset abab") {
		t.Errorf("%v", err)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	good := records()
	with := func(kind int, v []byte) map[int][]byte {
		r := records()
		if r[kind] = v; v == nil {
			delete(r, kind)
		}
		return r
	}
	for name, s := range map[string]string{
		"empty":           "",
		"of bitcoin":      encode(t, "bc", ascending, good),
		"a letter":        strings.Replace(encode(t, "tapbc", ascending, good), "q", "p", 1),
		"out of order":    encode(t, "tapbc", []int{0, 4, 2, 6, 8, 10, 12}, good),
		"twice":           encode(t, "tapbc", []int{0, 2, 4, 6, 8, 10, 10, 12}, good),
		"no asset":        encode(t, "tapbc", ascending, with(4, nil)),
		"no amount":       encode(t, "tapbc", ascending, with(10, nil)),
		"amount 0":        encode(t, "tapbc", ascending, with(10, []byte{0})),
		"a long amount":   encode(t, "tapbc", ascending, with(10, []byte{0xfd, 0x00, 0x01})),
		"a short asset":   encode(t, "tapbc", ascending, with(4, []byte{1})),
		"zero asset":      encode(t, "tapbc", ascending, with(4, make([]byte, 32))),
		"no key":          encode(t, "tapbc", ascending, with(6, make([]byte, 33))),
		"version 2":       encode(t, "tapbc", ascending, with(0, []byte{2})),
		"even, not known": encode(t, "tapbc", ascending, with(14, []byte{1})),
		"no URL":          encode(t, "tapbc", ascending, with(12, []byte("a b://c"))),
		"too long":        "tapbc1" + strings.Repeat("q", maxLength),
	} {
		if a, err := Parse(s); !errors.Is(err, ErrAddress) || a != (Address{}) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if err := Refuse(s); !errors.Is(err, ErrAddress) || errors.Is(err, ErrNoBackend) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAssetIDs(t *testing.T) {
	for _, s := range []string{"", "USD", strings.Repeat("0", 64), strings.Repeat("AB", 32), strings.Repeat("g", 64), strings.Repeat("a", 63)} {
		if _, err := ParseAssetID(s); !errors.Is(err, ErrAssetID) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, "tapsb", ascending, records()))
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := Parse(s); err == nil && (a.Amount == 0 || a.AssetID == (AssetID{}) || a.ScriptKey == "") {
			t.Errorf("%+v", a)
		}
	})
}
