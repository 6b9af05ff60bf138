package destination_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// Addresses of BIP 173 and BIP 350.
const (
	p2wpkh = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	p2wsh  = "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7"
	p2tr   = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
)

func TestParseURI(t *testing.T) {
	for _, tt := range []struct {
		text    string
		network payments.Network
		address string
		sats    int64
	}{
		{p2wpkh, payments.Mainnet, p2wpkh, 0},
		{strings.ToUpper(p2wpkh), payments.Mainnet, p2wpkh, 0},
		{p2tr, payments.Mainnet.OnChain(), p2tr, 0},
		{p2wsh, payments.Testnet, p2wsh, 0},
		{"bitcoin:" + p2wpkh, payments.Mainnet, p2wpkh, 0},
		{"BITCOIN:" + p2wpkh + "?amount=0.00020001", payments.Mainnet, p2wpkh, 20_001},
		{"bitcoin:" + p2wpkh + "?amount=20999999.99999999", payments.Mainnet, p2wpkh, 2_099_999_999_999_999},
		{"bitcoin:" + p2wpkh + "?amount=1", payments.Mainnet, p2wpkh, 100_000_000},
	} {
		got, err := destination.ParseURI(tt.text, tt.network)
		if err != nil || got.Address != tt.address || got.Sats != tt.sats {
			t.Errorf("%s: %+v, %v", tt.text, got, err)
			continue
		}
		if sats := destination.Sats(tt.text); sats != tt.sats {
			t.Errorf("%s: %d sat", tt.text, sats)
		}
		if again, err := destination.ParseURI(got.String(), tt.network); err != nil || again.String() != got.String() || again.Sats != tt.sats {
			t.Errorf("%s is written as %s: %+v, %v", tt.text, got, again, err)
		}
	}
}

func TestURIRefusals(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"another network":    p2wsh,
		"legacy":             "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
		"script hash":        "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
		"witness version 2":  "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs",
		"version 1, bech32":  "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
		"version 0, bech32m": "bc1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqsjtsrl",
		"mixed case":         "bc1qW508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
		"one letter wrong":   "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
		"no amount":          "bitcoin:" + p2wpkh + "?amount=",
		"zero":               "bitcoin:" + p2wpkh + "?amount=0.00000000",
		"nine places":        "bitcoin:" + p2wpkh + "?amount=0.000000001",
		"exponent":           "bitcoin:" + p2wpkh + "?amount=1e3",
		"negative":           "bitcoin:" + p2wpkh + "?amount=-1",
		"more than there is": "bitcoin:" + p2wpkh + "?amount=21000001",
		"further parameter":  "bitcoin:" + p2wpkh + "?amount=1&req-x=1",
		"label":              "bitcoin:" + p2wpkh + "?label=x",
		"far too long":       strings.Repeat("b", 1<<20),
	} {
		if got, err := destination.ParseURI(text, payments.Mainnet); !errors.Is(err, destination.ErrText) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := destination.ParseURI(p2wpkh, payments.Play); !errors.Is(err, destination.ErrText) {
		t.Errorf("play money: %v", err)
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add(p2wpkh)
	f.Add("bitcoin:" + p2tr + "?amount=0.1")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := destination.ParseURI(text, payments.Mainnet)
		if err != nil {
			return
		}
		again, err := destination.ParseURI(u.String(), payments.Mainnet)
		if err != nil || again.String() != u.String() {
			t.Errorf("%q reads as %s, and that as %s, %v", text, u, again, err)
		}
	})
}
