package bolt11

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

func drawInvoice(t *rapid.T, payee string) *Invoice {
	bytes := func(min, max int, label string) []byte {
		return rapid.SliceOfN(rapid.Byte(), min, max).Draw(t, label)
	}
	inv := &Invoice{
		Network:       rapid.SampledFrom(prefixes[:len(prefixes)-1]).Draw(t, "network").network, // all but a mint's: ecash_test.go
		AmountMsats:   rapid.Int64Range(0, payments.MaxMsats).Draw(t, "amount"),
		CreatedAt:     time.Unix(rapid.Int64Range(0, 1<<35-1).Draw(t, "created"), 0).UTC(),
		PaymentHash:   payments.Hash(bytes(32, 32, "hash")),
		PaymentSecret: [32]byte(bytes(32, 32, "secret")),
		Expiry:        time.Duration(rapid.Int64Range(1, 1<<33).Draw(t, "expiry")) * time.Second,
		MinFinalCLTV:  rapid.Uint32Range(1, 1<<32-1).Draw(t, "cltv"),
		Metadata:      bytes(0, 40, "metadata"),
		Payee:         payee,
	}
	if rapid.Bool().Draw(t, "hashed") {
		digest := hashing.Digest(bytes(32, 32, "digest"))
		inv.DescriptionHash = &digest
	} else {
		inv.Description = rapid.StringN(0, 100, 600).Draw(t, "description")
	}
	for bit := range 200 {
		if (bit%2 == 1 || knownFeature(bit)) && rapid.IntRange(0, 9).Draw(t, "bit") == 0 {
			inv.Features = append(inv.Features, bit)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "fallbacks") {
		version := rapid.SampledFrom([]byte{0, 1, 2, 16, 17, 18}).Draw(t, "version")
		size := map[byte]int{0: 20, 1: 32, 2: 2, 16: 40, 17: 20, 18: 20}[version]
		inv.Fallbacks = append(inv.Fallbacks, Fallback{version, bytes(size, size, "program")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "routes") {
		var hops []Hop
		for range rapid.IntRange(1, 3).Draw(t, "hops") {
			hops = append(hops, Hop{
				PubKey:         payee,
				ShortChannelID: rapid.Uint64().Draw(t, "channel"),
				FeeBaseMsats:   rapid.Uint32().Draw(t, "base"),
				FeeMillionths:  rapid.Uint32().Draw(t, "rate"),
				CLTVDelta:      rapid.Uint16().Draw(t, "delta"),
			})
		}
		inv.Routes = append(inv.Routes, hops)
	}
	return inv
}

func TestRoundTrip(t *testing.T) {
	key := testKey(t)
	payee := hex.EncodeToString(key.PubKey().SerializeCompressed())
	rapid.Check(t, func(t *rapid.T) {
		inv := drawInvoice(t, payee)
		s, err := Encode(inv, signWith(key))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(s)
		if err != nil {
			t.Fatalf("decode %s: %v", s, err)
		}
		if diff := cmp.Diff(inv, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestSpecReencoded: what the examples say can be written again and means the
// same.
func TestSpecReencoded(t *testing.T) {
	key := testKey(t)
	for _, v := range readVectors(t).Valid {
		inv := v.Want.invoice(t)
		inv.Payee = ""
		s, err := Encode(inv, signWith(key))
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		got, err := Decode(s)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if diff := cmp.Diff(inv, got, cmpopts.IgnoreFields(Invoice{}, "Payee")); diff != "" {
			t.Errorf("%s: %s", v.Name, diff)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	key := testKey(t)
	digest := hashing.Bytes([]byte("quote"))
	cases := []struct {
		name   string
		change func(*Invoice)
		want   error
	}{
		{"as is", func(*Invoice) {}, nil},
		{"no network", func(i *Invoice) { i.Network = "" }, ErrPrefix},
		{"negative amount", func(i *Invoice) { i.AmountMsats = -1 }, ErrAmount},
		{"amount over 2^53", func(i *Invoice) { i.AmountMsats = payments.MaxMsats + 1 }, ErrAmount},
		{"before 1970", func(i *Invoice) { i.CreatedAt = time.Unix(-1, 0) }, ErrField},
		{"far future", func(i *Invoice) { i.CreatedAt = time.Unix(1<<35, 0) }, ErrField},
		{"half a second", func(i *Invoice) { i.Expiry = time.Second / 2 }, ErrField},
		{"both descriptions", func(i *Invoice) { i.Description = "x" }, ErrField},
		{"not UTF-8", func(i *Invoice) { i.DescriptionHash, i.Description = nil, "\xff" }, ErrField},
		{"long metadata", func(i *Invoice) { i.Metadata = make([]byte, 640) }, ErrField},
		{"unknown required feature", func(i *Invoice) { i.Features = []int{100} }, ErrFeature},
		{"feature out of range", func(i *Invoice) { i.Features = []int{5115} }, ErrField},
		{"bad fallback", func(i *Invoice) { i.Fallbacks = []Fallback{{Version: 0}} }, ErrField},
		{"empty route", func(i *Invoice) { i.Routes = [][]Hop{{}} }, ErrField},
		{"bad hop", func(i *Invoice) { i.Routes = [][]Hop{{{PubKey: "02"}}} }, ErrField},
		{"another payee", func(i *Invoice) { i.Payee = "02aa" }, ErrSignature},
		{"too long", func(i *Invoice) {
			hop := Hop{PubKey: hex.EncodeToString(key.PubKey().SerializeCompressed())}
			for range 90 {
				i.Routes = append(i.Routes, []Hop{hop})
			}
		}, ErrTooLong},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inv := &Invoice{Network: payments.Play, AmountMsats: 1000, DescriptionHash: &digest, CreatedAt: time.Unix(1_700_000_000, 0)}
			c.change(inv)
			if _, err := Encode(inv, signWith(key)); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestEncodeSigner(t *testing.T) {
	broken := errors.New("no key today")
	inv := &Invoice{Network: payments.Play, CreatedAt: time.Unix(1, 0)}
	_, err := Encode(inv, func([32]byte) ([65]byte, error) { return [65]byte{}, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the signer's", err)
	}
	if _, err := Encode(inv, func([32]byte) ([65]byte, error) { return [65]byte{31}, nil }); !errors.Is(err, ErrSignature) {
		t.Errorf("error %v, want %v", err, ErrSignature)
	}
}

func TestShortestAmount(t *testing.T) {
	for msats, want := range map[int64]string{
		0: "", 1: "10p", 99: "990p", 100: "1n", 1000: "10n", 100_000: "1u", 250_000_000: "2500u",
		100_000_000: "1m", 100_000_000_000: "1", 100_000_000_001: "1000000000010p",
	} {
		if got := formatAmount(msats); got != want {
			t.Errorf("%d msats: %q, want %q", msats, got, want)
		}
	}
}

func TestExpiresAt(t *testing.T) {
	inv := &Invoice{CreatedAt: time.Unix(100, 0), Expiry: time.Minute}
	if got := inv.ExpiresAt().Unix(); got != 160 {
		t.Errorf("expires at %d", got)
	}
}
