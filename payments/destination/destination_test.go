package destination_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// invoice makes a signed invoice.
func invoice(t testing.TB, network payments.Network, msats int64) (text string, hash payments.Hash) {
	t.Helper()
	key, _ := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))
	hash = payments.Hash{1, 2, 3}
	inv := bolt11.Invoice{
		Network: network, AmountMsats: msats, PaymentHash: hash, PaymentSecret: [32]byte{4}, Description: "back",
		CreatedAt: time.Unix(1_700_000_000, 0), Expiry: time.Hour, Features: []int{8, 14},
	}
	text, err := bolt11.Encode(&inv, func(h [32]byte) (sig [65]byte, err error) {
		copy(sig[:], ecdsa.SignCompact(key, h[:], true))
		return sig, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, hash
}

func TestParse(t *testing.T) {
	good, hash := invoice(t, payments.Simnet, 21_000)
	for _, network := range []payments.Network{payments.Simnet, ""} {
		to, err := destination.Parse(good, network)
		if err != nil || to.Invoice == nil || to.Invoice.PaymentHash != hash || to.Invoice.AmountMsats != 21_000 {
			t.Errorf("invoice on %q: %+v, %v", network, to, err)
		}
	}
	if to, err := destination.Parse("me@example.com", payments.Simnet); err != nil || to.LightningAddress != "me@example.com" || to.Invoice != nil {
		t.Errorf("Lightning address: %+v, %v", to, err)
	}
	if to, err := destination.Parse("bitcoin:"+p2wpkh+"?amount=0.1", payments.Mainnet.OnChain()); err != nil || to.Chain.Address != p2wpkh || to.Chain.Sats != 10_000_000 {
		t.Errorf("on the chain: %+v, %v", to, err)
	}
}

func TestParseRefuses(t *testing.T) {
	good, _ := invoice(t, payments.Simnet, 21_000)
	open, _ := invoice(t, payments.Simnet, 0)
	for name, tt := range map[string]struct {
		text    string
		network payments.Network
		want    error
	}{
		"invoice of another network":  {good, payments.Mainnet, payments.ErrWrongNetwork},
		"invoice without an amount":   {open, payments.Simnet, payments.ErrAmount},
		"altered invoice":             {good[:len(good)-1] + "q", payments.Simnet, bolt11.ErrBech32},
		"invoice where chain is paid": {good, payments.Simnet.OnChain(), destination.ErrText},
		"chain where invoice is paid": {p2wpkh, payments.Mainnet, bolt11.ErrMissing},
		"no host's name":              {"me@127.0.0.1", payments.Mainnet, payments.ErrAddress},
		"Taproot Assets":              {"TAPBC1qqq", payments.Mainnet, payments.ErrTaprootAssets},
		"Taproot Assets, test":        {"taptb1qqq", "", payments.ErrUnsupported},
		"empty":                       {"", payments.Mainnet, bolt11.ErrBech32},
	} {
		if to, err := destination.Parse(tt.text, tt.network); !errors.Is(err, tt.want) || to.Invoice != nil {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
}

func TestKeyAndRail(t *testing.T) {
	text, hash := invoice(t, payments.Simnet, 21_000)
	uri := "bitcoin:" + p2wpkh + "?amount=0.1"
	for text, want := range map[string]string{
		text: hash.String(), strings.ToUpper(text): hash.String(),
		p2wpkh: p2wpkh, strings.ToUpper(p2wpkh): p2wpkh, uri: p2wpkh, strings.ToUpper(uri): p2wpkh,
	} {
		if got := destination.Key(text); got != want {
			t.Errorf("key of %s is %s, want %s", text, got, want)
		}
	}
	if destination.RailOf(text) != payments.RailLightning || destination.RailOf(uri) != payments.RailOnChain {
		t.Error("the rail of an invoice is Lightning, that of a URI the chain")
	}
}

func FuzzParse(f *testing.F) {
	text, _ := invoice(f, payments.Simnet, 21_000)
	f.Add(text, "simnet")
	f.Add("me@example.com", "")
	f.Add(p2tr, "chain:mainnet")
	f.Add("tapbc1qqq", "mainnet")
	f.Add(hex.EncodeToString([]byte(text)), "play")
	f.Fuzz(func(t *testing.T, text, network string) {
		to, err := destination.Parse(text, payments.Network(network))
		if set := (to.Invoice != nil) != (to.LightningAddress != "") != (to.Chain.Address != ""); err == nil && !set {
			t.Errorf("%q on %q reads as %+v", text, network, to)
		}
	})
}
