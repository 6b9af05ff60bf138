package cashu

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// vectorKeyset is a keyset of testdata/nut02.json, the vectors of NUT-02.
type vectorKeyset struct {
	ID     string            `json:"id"`
	FeePPK int64             `json:"input_fee_ppk"`
	Expiry int64             `json:"final_expiry"`
	Keys   map[string]string `json:"keys"`
}

func (v vectorKeyset) parse() (*keyset, error) {
	return parseKeyset(keyset{id: v.ID, feePPK: v.FeePPK, expiry: v.Expiry}, v.Keys)
}

// The ids of the vectors are derived; with another fee, expiry or key they are
// not, as far as the id's version covers them.
func TestKeysetIDs(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("testdata/nut02.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []vectorKeyset
	if err := json.Unmarshal(doc, &list); err != nil || len(list) != 5 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	for _, v := range list {
		if _, err := v.parse(); err != nil {
			t.Errorf("%s: %v", v.ID, err)
		}
		covered := strings.HasPrefix(v.ID, version1)
		fee, expiry, swapped := v, v, v
		fee.FeePPK++
		expiry.Expiry++
		swapped.Keys = map[string]string{}
		for sats, key := range v.Keys {
			swapped.Keys[sats] = key
		}
		swapped.Keys["1"], swapped.Keys["2"] = v.Keys["2"], v.Keys["1"]
		for name, c := range map[string]struct {
			of   vectorKeyset
			want bool
		}{"fee": {fee, covered}, "expiry": {expiry, covered}, "keys": {swapped, true}} {
			if _, err := c.of.parse(); errors.Is(err, ErrKeyset) != c.want {
				t.Errorf("%s with another %s: %v", v.ID, name, err)
			}
		}
	}
}

// expires gives the mint other keys, with an id of the second version.
func (m *fakeMint) expires(in time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version, m.expiry = version1, time.Now().Add(in).Unix()
	m.rotate()
}

// A mint with ids of the second version is paid with, melted at and restored from
// like any other.
func TestLongKeysetIDs(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 100)
	m.expires(1000 * time.Hour)
	restores(t, m.place())
}

// Notes are not made of keys that end before a payment could, and not taken.
func TestKeysetExpires(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	payee, _ := b.open("payee")
	payer, stop := b.open("payer")
	m.expires(time.Hour)
	if _, err := payer.Topup(t.Context(), 10); !errors.Is(err, ErrKeyset) {
		t.Errorf("topped up: %v", err)
	}
	stop()
	payer, _ = b.open("payer")
	m.expires(50 * time.Hour)
	b.fill(payer, 100)
	inv := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(b.secret(), true, 10_000)))
	l := lock{hash: inv.PaymentHash, payee: payee.node, refund: payer.node, until: time.Now().Add(60 * time.Hour).Unix()}
	if state := b.sentTo(payee, inv.PaymentHash, b.lockedNotes(payer, l, 16)); state != "refused" {
		t.Errorf("notes that expire are %s", state)
	}
}
