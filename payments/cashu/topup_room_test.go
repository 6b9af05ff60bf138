package cashu

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// unpaid lets nobody pay the mint's invoices until pay is called.
func (m *fakeMint) unpaid() (pay func()) {
	var paid atomic.Bool
	m.meddle = func(path string, answer func() (int, any)) (int, any) {
		if strings.HasPrefix(path, "/v1/mint/quote/bolt11/") && !paid.Load() {
			return 200, map[string]any{"quote": path[len("/v1/mint/quote/bolt11/"):], "state": "UNPAID"}
		}
		return answer()
	}
	return func() { paid.Store(true) }
}

// TestTopupsTogether: however many top-ups are begun at once, what they bring is
// never more than fits, not by one msat, paid or not.
func TestTopupsTogether(t *testing.T) {
	t.Parallel()
	mint := newFakeMint(t, 0)
	pay := mint.unpaid()
	b := newBench(t, mint.place())
	w, _ := b.open("payer", func(c *Config) { c.MaxMsats = 100_999 })
	const payers, sats = 64, 3
	var mu sync.Mutex
	var open []Topup
	var group sync.WaitGroup
	for range payers {
		group.Go(func() {
			topup, err := w.Topup(t.Context(), sats)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				open = append(open, topup)
			case !errors.Is(err, ErrCap):
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if len(open) != 33 {
		t.Fatalf("%d top-ups of %d sats are open; 33 fit", len(open), sats)
	}
	if _, err := w.Topup(t.Context(), 2); !errors.Is(err, ErrCap) {
		t.Errorf("beside the open ones: %v", err)
	}
	// What is left fits still, and all that is open can be paid.
	open = append(open, must[Topup](b)(w.Topup(t.Context(), 1)))
	pay()
	for _, topup := range open {
		if err := w.AwaitTopup(t.Context(), topup); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.spendable(w); got != 100_000 {
		t.Errorf("%d msats are there", got)
	}
}

// TestRoomOfTopup: an invoice of the mint's takes room until it has lapsed, and
// so does what was sent away and may come back.
func TestRoomOfTopup(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	cfg := b.cfg
	cfg.Seed, cfg.Path, cfg.Messages, cfg.MaxMsats = b.seeds["payer"], filepath.Join(b.dir, "payer.db"), desk{b.room, ""}, 100_000
	w := must[*Wallet](b)(Open(t.Context(), cfg)) // and not served: nothing ends but by the test
	defer w.Close()
	room := func(sats int64) error {
		return w.db.View(t.Context(), func(tx *sqlite.Tx) error { return w.checkCap(tx, sats*1000) })
	}
	topup := must[Topup](b)(w.Topup(t.Context(), 60))
	change := func(query string, args ...any) {
		t.Helper()
		if err := w.db.Update(t.Context(), func(tx *sqlite.Tx) error { _, err := tx.Exec(query, args...); return err }); err != nil {
			t.Fatal(err)
		}
	}
	ago := func(d time.Duration) int64 { return millis(time.Now().Add(-d)) }
	for _, c := range []struct {
		name      string
		at, until int64
		takes     bool
	}{
		{"no end is known", ago(time.Hour), 0, true},
		{"no end is known, a week ago", ago(topupKept + time.Minute), 0, false},
		{"it ends in an hour", ago(time.Hour), ago(-time.Hour), true},
		{"it has ended just now: the mint may hear of it late", ago(time.Hour), ago(time.Second), true},
		{"it has ended", ago(time.Hour), ago(lateAnswer + time.Minute), false},
	} {
		change(`UPDATE ops SET at_ms = ?, until_ms = ?, unsure_ms = 0 WHERE quote = ?`, c.at, c.until, topup.Quote)
		if err := room(41); errors.Is(err, ErrCap) != c.takes {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	change(`INSERT INTO payments (payment_hash, bolt11, state, amount_msats, fee_msats, payee, locked_s)
		VALUES (zeroblob(32), '', 'sent', 50000, 1000, ?, 0)`, w.node)
	if err := room(50); !errors.Is(err, ErrCap) {
		t.Errorf("beside a payment that may come back: %v", err)
	}
	change(`UPDATE payments SET state = 'failed'`)
	if err := room(100); err != nil {
		t.Error(err)
	}
}

// TestEndOfTopup: the later of what the mint and its invoice say.
func TestEndOfTopup(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, _ := b.open("payee")
	inv := must[payments.Invoice](b)(w.CreateInvoice(t.Context(), ask(b.secret(), true, 1000)))
	end := must[*bolt11.Invoice](b)(bolt11.Decode(inv.BOLT11)).ExpiresAt().Unix()
	early, late := end-60, end+60
	for _, c := range []struct {
		name   string
		answer quoteAnswer
		want   int64
	}{
		{"neither", quoteAnswer{Request: "lnbc1made-up"}, 0},
		{"the mint alone", quoteAnswer{Request: "lnbc1made-up", Expiry: early}, early},
		{"the invoice alone", quoteAnswer{Request: inv.BOLT11}, end},
		{"the invoice is later", quoteAnswer{Request: inv.BOLT11, Expiry: early}, end},
		{"the mint is later", quoteAnswer{Request: inv.BOLT11, Expiry: late}, late},
		{"no time", quoteAnswer{Request: "lnbc1made-up", Expiry: -5}, 0},
	} {
		got := c.answer.expiry()
		if c.want == 0 && !got.IsZero() || c.want != 0 && got.Unix() != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
