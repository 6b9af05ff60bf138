package bolt11

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// vectors is testdata/spec.json: the examples of the specification, with what
// its text says about each.
type vectors struct {
	Valid []struct {
		Name    string
		Invoice string
		Want    wantInvoice
	}
	Invalid []struct{ Name, Invoice, Error string }
}

type wantInvoice struct {
	Network         payments.Network
	AmountMsats     int64         `json:"amount_msats"`
	CreatedAt       int64         `json:"created_at"`
	PaymentHash     payments.Hash `json:"payment_hash"`
	PaymentSecret   payments.Hash `json:"payment_secret"`
	Payee           string
	ExpirySeconds   int64  `json:"expiry_s"`
	MinFinalCLTV    uint32 `json:"min_final_cltv"`
	Features        []int
	Description     string
	DescriptionHash string `json:"description_hash"`
	Metadata        string
	Fallbacks       []struct {
		Version byte
		Program string
	}
	Routes [][]Hop
}

func (w wantInvoice) invoice(t *testing.T) *Invoice {
	inv := &Invoice{
		Network: w.Network, AmountMsats: w.AmountMsats, CreatedAt: time.Unix(w.CreatedAt, 0).UTC(),
		PaymentHash: w.PaymentHash, PaymentSecret: w.PaymentSecret, Description: w.Description,
		Metadata: unhex(t, w.Metadata), Expiry: time.Duration(w.ExpirySeconds) * time.Second,
		MinFinalCLTV: w.MinFinalCLTV, Features: w.Features, Payee: w.Payee, Routes: w.Routes,
	}
	if w.DescriptionHash != "" {
		inv.DescriptionHash = (*hashing.Digest)(unhex(t, w.DescriptionHash))
	}
	for _, f := range w.Fallbacks {
		inv.Fallbacks = append(inv.Fallbacks, Fallback{f.Version, unhex(t, f.Program)})
	}
	return inv
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/spec.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Valid) != 16 || len(v.Invalid) != 10 {
		t.Fatalf("testdata/spec.json has %d valid and %d invalid examples", len(v.Valid), len(v.Invalid))
	}
	return v
}

func TestSpecValid(t *testing.T) {
	for _, v := range readVectors(t).Valid {
		t.Run(v.Name, func(t *testing.T) {
			got, err := Decode(v.Invoice)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Want.invoice(t), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSpecInvalid(t *testing.T) {
	reasons := map[string]error{
		"feature": ErrFeature, "bech32": ErrBech32, "signature": ErrSignature,
		"amount": ErrAmount, "missing": ErrMissing,
	}
	for _, v := range readVectors(t).Invalid {
		t.Run(v.Name, func(t *testing.T) {
			_, err := Decode(v.Invoice)
			if reason := reasons[v.Error]; reason == nil || !errors.Is(err, reason) {
				t.Errorf("error %v, want one that is %q", err, v.Error)
			}
		})
	}
}
