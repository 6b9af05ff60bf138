package bolt11

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

func ecashInvoice() *Invoice {
	digest := hashing.Bytes([]byte("quote"))
	return &Invoice{
		Network: "cashu:mint.example.com/Bitcoin", AmountMsats: 21_500, CreatedAt: time.Unix(1_700_000_000, 0).UTC(),
		PaymentHash: payments.Hash{1}, PaymentSecret: [32]byte{2}, DescriptionHash: &digest, Expiry: time.Minute, MinFinalCLTV: DefaultMinFinalCLTV,
		Ecash: &Ecash{Mint: "mint.example.com/Bitcoin", LockSeconds: 3600, Relays: []string{"wss://relay.example"}},
	}
}

func TestEcashRoundTrip(t *testing.T) {
	want := ecashInvoice()
	text, err := Encode(want, signWith(testKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "lncashu215n1") {
		t.Errorf("%s", text)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	want.Payee, want.Metadata = got.Payee, []byte(`{"lock":3600,"mint":"mint.example.com/Bitcoin","relays":["wss://relay.example"]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again, err := Encode(got, signWith(testKey(t)))
	if err != nil || again != text {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}
}

func TestEcashTermsAreStrict(t *testing.T) {
	for _, metadata := range []string{
		``, `{}`, `null`, `{"lock":3600,"mint":"mint.example.com"}`,
		`{"mint":"mint.example.com","lock":3600,"relays":["wss://r"]}`, // another order
		`{"lock":3600,"mint":"mint.example.com","relays":["wss://r"],"x":1}`,
		`{"lock":3600,"mint":"https://mint.example.com","relays":["wss://r"]}`,
		`{"lock":3600,"mint":"Mint.example.com","relays":["wss://r"]}`,
		`{"lock":0,"mint":"mint.example.com","relays":["wss://r"]}`,
		`{"lock":604801,"mint":"mint.example.com","relays":["wss://r"]}`,
		`{"lock":3600,"mint":"mint.example.com","relays":[]}`,
		`{"lock":3600,"mint":"mint.example.com","relays":["https://r"]}`,
		`{"lock":3600,"mint":"mint.example.com","relays":["ws://1","ws://2","ws://3","ws://4","ws://5"]}`,
	} {
		inv := &Invoice{Network: cashuLetters, Metadata: []byte(metadata)}
		if err := inv.readEcash(); !errors.Is(err, ErrField) {
			t.Errorf("%s: %v", metadata, err)
		}
	}
	for name, change := range map[string]func(inv *Invoice){
		"another mint":   func(inv *Invoice) { inv.Network = "cashu:other.example" },
		"a chain":        func(inv *Invoice) { inv.Network = payments.Mainnet },
		"other metadata": func(inv *Invoice) { inv.Metadata = []byte("x") },
		"no terms":       func(inv *Invoice) { inv.Ecash = nil },
		"no mint":        func(inv *Invoice) { inv.Ecash, inv.Network = nil, cashuLetters },
		"too long":       func(inv *Invoice) { inv.Ecash.Relays = []string{"wss://" + strings.Repeat("r", 640)} },
	} {
		inv := ecashInvoice()
		change(inv)
		if text, err := Encode(inv, signWith(testKey(t))); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}
