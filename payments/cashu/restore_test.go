package cashu

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// lost opens the wallet of the seed in a new file.
func (b *bench) lost(name string, change ...func(*Config)) (w *Wallet, stop func()) {
	b.Helper()
	dir := b.TempDir()
	return b.open(name, append(change, func(c *Config) { c.Path = filepath.Join(dir, name+".db") })...)
}

// restores plays the loss of a file whose wallet has paid, been paid, melted and
// exported: all but the locked is found by the seed, and can be spent.
func restores(t *testing.T, mint string) {
	b := newBench(t, mint)
	payer, stop := b.open("payer")
	payee, _ := b.open("payee")
	b.fill(payer, 1000)
	inv := b.order(payee, payer, ask(b.secret(), false, 150_000))
	must[payments.Payment](b)(payer.TrackPayment(t.Context(), inv.PaymentHash))
	invoice, _ := b.invoice(70_000)
	b.melt(payer, invoice, 500)
	token := must[Token](b)(payer.Export(t.Context(), 33))
	held := b.order(payee, payer, ask(b.secret(), true, 20_000))
	b.awaitState(payee, held.PaymentHash, payments.InvoiceHeld)
	had := b.spendable(payer)

	// The file that is there knows of everything.
	if r := must[Restored](b)(payer.Restore(t.Context(), nil)); r != (Restored{}) || b.spendable(payer) != had {
		t.Errorf("restored beside the old file: %+v", r)
	}
	stop()
	payer, _ = b.lost("payer")
	r := must[Restored](b)(payer.Restore(t.Context(), nil))
	if want := had/1000 + token.Sats; r.Sats != want || r.PendingSats != 0 || b.spendable(payer) != want*1000 {
		t.Errorf("restored %+v, want %d sats", r, want)
	}
	if again := must[Restored](b)(payer.Restore(t.Context(), nil)); again != (Restored{}) {
		t.Errorf("again: %+v", again)
	}
	inv = b.order(payee, payer, ask(b.secret(), false, 600_000))
	if p := must[payments.Payment](b)(payer.TrackPayment(t.Context(), inv.PaymentHash)); p.State != payments.PaymentSucceeded {
		t.Errorf("paid with restored notes: %+v", p)
	}
	b.awaitState(payee, inv.PaymentHash, payments.InvoiceSettled)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	for _, ppk := range []int64{0, 400} {
		t.Run(fmt.Sprintf("fee %d", ppk), func(t *testing.T) {
			t.Parallel()
			restores(t, newFakeMint(t, ppk).place())
		})
	}
}

// Numbers that made no notes end the search only where there are many of them,
// and keys that the mint has retired are asked for too.
func TestRestoreOverGaps(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, stop := b.open("payer")
	b.fill(w, 7)
	for _, gap := range []int{250, 400} {
		err := w.db.Update(t.Context(), func(tx *sqlite.Tx) error {
			_, err := nextCounter(tx, m.id, gap)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		b.fill(w, 7)
	}
	stop()
	w, _ = b.lost("payer")
	var asked int64
	var found Restored
	r := must[Restored](b)(w.Restore(t.Context(), func(n int64, r Restored) {
		if n != asked+restoreBatch {
			t.Errorf("%d numbers, then %d", asked, n)
		}
		asked, found = n, r
	}))
	if r.Sats != 14 {
		t.Errorf("%+v, want what is before the gap of 400", r)
	}
	if found != r || asked == 0 {
		t.Errorf("told %+v, returned %+v", found, r)
	}
}

// Whatever fails meanwhile, the next call finds the rest, and none twice.
func TestRestoreIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/restore", "/v1/checkstate"} {
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprintf("%s %d", path[4:], nth), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, newFakeMint(t, 0).place())
				w, stop := b.open("payer")
				for range 30 {
					b.fill(w, 31)
				}
				stop()
				w, stop = b.lost("payer", func(c *Config) { c.Transport = newCut(path, nth, true) })
				if _, err := w.Restore(t.Context(), nil); !errors.Is(err, payments.ErrWalletUnavailable) {
					t.Fatalf("%v", err)
				}
				path := w.cfg.Path
				stop()
				w, _ = b.open("payer", func(c *Config) { c.Path = path })
				must[Restored](b)(w.Restore(t.Context(), nil))
				if got := b.spendable(w); got != 930_000 {
					t.Errorf("%d msats", got)
				}
			})
		}
	}
}

// Notes that the mint is doing something with are not ours yet; what it says it
// signed and did not is refused.
func TestRestoreFromStrangeMint(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, stop := b.open("payer")
	b.fill(w, 64)
	m.lightning(meltPending, 0, 0)
	invoice, _ := b.invoice(16_000)
	quote := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
	sent := make(chan struct{}, 100)
	m.meddled(meltPath, func(status int, doc any) (int, any) {
		sent <- struct{}{}
		return status, doc
	})
	if err := w.Melt(t.Context(), quote.Hash, 16); err != nil {
		t.Fatal(err)
	}
	<-sent
	stop()
	w, _ = b.lost("payer")
	if r := must[Restored](b)(w.Restore(t.Context(), nil)); r.Sats != 48 || r.PendingSats != 16 {
		t.Errorf("%+v", r)
	}
	for name, spoil := range map[string]func(*blindSignature){
		"of air":     func(s *blindSignature) { s.Amount = 1 << 19 },
		"negative":   func(s *blindSignature) { s.Amount = math.MinInt64 },
		"unproven":   func(s *blindSignature) { s.DLEQ = nil },
		"other keys": func(s *blindSignature) { s.Keyset = "00ffffffffffffff" },
	} {
		m.meddled("/v1/restore", func(status int, doc any) (int, any) {
			answer := doc.(map[string]any)
			sigs := append([]blindSignature(nil), answer["signatures"].([]blindSignature)...)
			for i := range sigs {
				spoil(&sigs[i])
			}
			return status, map[string]any{"outputs": answer["outputs"], "signatures": sigs}
		})
		w, _ := b.lost("payer")
		if r, err := w.Restore(t.Context(), nil); !errors.Is(err, ErrMint) || b.spendable(w) != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A mint that has signed whatever it is asked for does not keep us for ever: each
// call ends, keeps what it found, and the next one goes on behind it.
func TestRestoreEndsAtAnEndlessMint(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	m.endless = 2
	b := newBench(t, m.place())
	w, _ := b.lost("payer", func(c *Config) { c.RestoreMost = 200 })
	for run, want := range []int{2, 2 + 3 + 2} { // the second call goes over what the first found, and the batch that is left out
		r, err := w.Restore(t.Context(), nil)
		if !errors.Is(err, ErrRestoreLimit) || r.Notes == 0 {
			t.Errorf("run %d: %+v, %v", run, r, err)
		}
		if got := m.asked; got != want {
			t.Errorf("run %d: the mint was asked %d times in all, want %d", run, got, want)
		}
	}
}

// What a mint says it owes can be added up: a sum that cannot is not kept.
func TestRestoreKeepsNoImpossibleSum(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	m.bits, m.endless = 44, maxSats
	m.rotate()
	b := newBench(t, m.place())
	w, _ := b.lost("payer")
	if r, err := w.Restore(t.Context(), nil); !errors.Is(err, ErrMint) || r.Sats != 0 || b.spendable(w) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Words are used by a wallet whose file knows nothing of what was made of them:
// what is there comes back by itself, and no number is used twice, for then the
// mint's word on an old note would be taken for the one that was paid for.
func TestSeedThatWasUsedElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, stop := b.open("payer")
	b.fill(w, 100)
	invoice, _ := b.invoice(40_000)
	b.melt(w, invoice, 500)
	had := b.spendable(w)
	stop()
	w, stop = b.lost("payer")
	b.fill(w, 100)
	if got, want := b.spendable(w), had+100_000; got != want {
		t.Errorf("%d msats, want %d", got, want)
	}
	path := w.cfg.Path
	stop()
	w, _ = b.open("payer", func(c *Config) { c.Path = path })
	token := must[Token](b)(w.Export(t.Context(), (had+100_000)/1000)) // all of it is good
	if token.Sats*1000 != had+100_000 {
		t.Errorf("took out %d sats", token.Sats)
	}
}

// What cuts the search off does not end it: the next one makes it anew.
func TestSearchIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, stop := b.open("payer")
	b.fill(w, 100)
	stop()
	w, stop = b.lost("payer", func(c *Config) { c.Transport = newCut("/v1/restore", 2, true) })
	if _, err := w.Topup(t.Context(), 100); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Fatalf("%v", err)
	}
	path := w.cfg.Path
	stop()
	w, _ = b.open("payer", func(c *Config) { c.Path = path })
	b.fill(w, 100)
	if got := b.spendable(w); got != 200_000 {
		t.Errorf("%d msats", got)
	}
	var searched int
	err := w.db.View(t.Context(), func(tx *sqlite.Tx) error { return tx.QueryRow(`SELECT searched FROM counters`).Scan(&searched) })
	if err != nil || searched != 1 {
		t.Errorf("searched: %d, %v", searched, err)
	}
}

// A file that nothing was done with takes the words of another seed; one that was
// used is for its own alone.
func TestFileTakesAnotherSeed(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	open := func(seed Seed) error {
		cfg := b.cfg
		cfg.Seed, cfg.Path, cfg.Messages = seed, b.dir+"/w.db", desk{b.room, ""}
		w, err := Open(t.Context(), cfg)
		if err != nil {
			return err
		}
		if err := w.searchFirst(t.Context(), must[*keyset](b)(w.cheapest(t.Context()))); err != nil {
			t.Error(err)
		}
		return w.Close()
	}
	for _, name := range []string{"payer", "payee"} {
		if err := open(b.seeds[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, stop := b.open("payee", func(c *Config) { c.Path = b.dir + "/w.db" })
	must[Topup](b)(w.Topup(t.Context(), 5))
	stop()
	if err := open(b.seeds["payer"]); !errors.Is(err, payments.ErrBadRequest) {
		t.Errorf("a wallet with a top-up under way is another's now: %v", err)
	}
}
