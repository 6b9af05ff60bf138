package payments

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestHashText(t *testing.T) {
	text := strings.Repeat("0a", 32)
	h, err := ParseHash(text)
	if err != nil || h[0] != 10 || h.String() != text || h.IsZero() {
		t.Errorf("hash %v, %v", h, err)
	}
	p, err := ParsePreimage(text)
	if err != nil || p.String() != text || p.IsZero() {
		t.Errorf("preimage %v, %v", p, err)
	}
	for name, bad := range map[string]string{
		"empty": "", "short": text[2:], "long": text + "00", "capitals": strings.ToUpper(text),
		"prefixed": "sha256:" + text, "no hex": strings.Repeat("0g", 32), "not ASCII": strings.Repeat("é", 32),
	} {
		if _, err := ParseHash(bad); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: hash error %v", name, err)
		}
		if _, err := ParsePreimage(bad); !errors.Is(err, ErrBadRequest) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%s: preimage error %v", name, err)
		}
	}
}

// TestPreimageHash is SHA-256 of 32 zero bytes.
func TestPreimageHash(t *testing.T) {
	want := "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
	if got := (Preimage{}).Hash().String(); got != want {
		t.Errorf("got %s", got)
	}
}

func TestJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		value any
		want  string
	}{
		{Payment{State: PaymentInFlight, AmountMsats: 1}, `{"hash":"` + strings.Repeat("0", 64) + `","state":"in_flight","amount_msats":1,"fee_msats":0}`},
		{Invoice{BOLT11: "ln", State: InvoiceHeld, SettleBy: at}, `{"bolt11":"ln","payment_hash":"` + strings.Repeat("0", 64) +
			`","amount_msats":0,"state":"held","paid_msats":0,"settle_by":"2026-01-02T03:04:05Z","final":false}`},
		{Balance{1, 2, 3}, `{"spendable_msats":1,"reserved_msats":2,"received_msats":3}`},
	} {
		got, err := json.Marshal(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("got %s, %v\nwant %s", got, err, c.want)
		}
	}
	var p Payment
	if err := json.Unmarshal([]byte(`{"preimage":"`+strings.Repeat("ff", 32)+`"}`), &p); err != nil || p.Preimage[31] != 0xff {
		t.Errorf("read %v, %v", p, err)
	}
	if err := json.Unmarshal([]byte(`{"hash":"ff"}`), &p); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a short hash: %v", err)
	}
}

func TestPreimageIsNotLogged(t *testing.T) {
	var b bytes.Buffer
	p := Preimage{0xab, 0xcd}
	slog.New(slog.NewTextHandler(&b, nil)).Info("settle", "preimage", p)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("settle", "preimage", p)
	if strings.Contains(b.String(), "abcd") || strings.Count(b.String(), "[preimage]") != 2 {
		t.Error(b.String())
	}
}

func TestAssetID(t *testing.T) {
	for network, want := range map[Network]string{
		Mainnet: "BTC_LN", Testnet: "BTC_LN(testnet)", Signet: "BTC_LN(signet)",
		Regtest: "BTC_LN(regtest)", Simnet: "BTC_LN(simnet)", Play: "PLAY_LN",
	} {
		if got := AssetID(network); got != want {
			t.Errorf("%s: %s, want %s", network, got, want)
		}
		if got, err := ParseNetwork(string(network)); err != nil || got != network {
			t.Errorf("%s: %v, %v", network, got, err)
		}
	}
	for _, bad := range []string{"", "Mainnet", "bitcoin"} {
		if _, err := ParseNetwork(bad); !errors.Is(err, ErrWrongNetwork) {
			t.Errorf("%q: %v", bad, err)
		}
		// What is not known to be mainnet never reads as real money.
		if AssetID(Network(bad)) == "BTC_LN" {
			t.Errorf("%q is taken for real money", bad)
		}
	}
}

func TestNewInvoiceHash(t *testing.T) {
	preimage := Preimage{1}
	hash := preimage.Hash()
	good := NewInvoice{Preimage: preimage, AmountMsats: 1, Expiry: time.Second}
	cases := []struct {
		name   string
		change func(n *NewInvoice)
		want   error
	}{
		{"prepay by preimage", func(*NewInvoice) {}, nil},
		{"prepay with its hash too", func(n *NewInvoice) { n.PaymentHash = hash }, nil},
		{"prepay with another's hash", func(n *NewInvoice) { n.PaymentHash = Hash{2} }, ErrBadRequest},
		{"prepay by hash alone", func(n *NewInvoice) { n.Preimage, n.PaymentHash = Preimage{}, hash }, ErrBadRequest},
		{"hold by hash", func(n *NewInvoice) { n.Hold, n.Preimage, n.PaymentHash = true, Preimage{}, hash }, nil},
		{"hold by preimage", func(n *NewInvoice) { n.Hold = true }, nil},
		{"hold with another's preimage", func(n *NewInvoice) { n.Hold, n.PaymentHash = true, Hash{2} }, ErrBadRequest},
		{"hold by nothing", func(n *NewInvoice) { n.Hold, n.Preimage = true, Preimage{} }, ErrBadRequest},
		{"no amount", func(n *NewInvoice) { n.AmountMsats = 0 }, ErrAmount},
		{"less than nothing", func(n *NewInvoice) { n.AmountMsats = -5 }, ErrAmount},
		{"the most", func(n *NewInvoice) { n.AmountMsats = MaxMsats }, nil},
		{"more than the most", func(n *NewInvoice) { n.AmountMsats = MaxMsats + 1 }, ErrAmount},
		{"no expiry", func(n *NewInvoice) { n.Expiry = 0 }, ErrBadRequest},
		{"a second and a half", func(n *NewInvoice) { n.Expiry = 1500 * time.Millisecond }, ErrBadRequest},
	}
	for _, c := range cases {
		n := good
		c.change(&n)
		got, err := n.Hash()
		if !errors.Is(err, c.want) || c.want == nil && (err != nil || got != hash) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestTerminal(t *testing.T) {
	for state, want := range map[InvoiceState]bool{InvoiceOpen: false, InvoiceHeld: false, InvoiceSettled: true, InvoiceCanceled: true} {
		if state.Terminal() != want {
			t.Errorf("invoice %s", state)
		}
	}
	for state, want := range map[PaymentState]bool{PaymentUnknown: false, PaymentInFlight: false, PaymentSucceeded: true, PaymentFailed: true} {
		if state.Terminal() != want {
			t.Errorf("payment %s", state)
		}
	}
}
