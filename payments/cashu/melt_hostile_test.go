package cashu

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// A mint whose quote is not for the invoice is asked to pay nothing.
func TestMintLiesAboutQuotes(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, _ := b.open("payer")
	b.fill(w, 100)
	for name, spoil := range map[string]func(*meltAnswer){
		"a higher price":    func(a *meltAnswer) { a.Amount++ },
		"a lower price":     func(a *meltAnswer) { a.Amount-- },
		"negative reserve":  func(a *meltAnswer) { a.Reserve = -1 },
		"boundless reserve": func(a *meltAnswer) { a.Reserve = math.MaxInt64 },
		"no name":           func(a *meltAnswer) { a.Quote = "" },
		"a long name":       func(a *meltAnswer) { a.Quote = strings.Repeat("q", 201) },
	} {
		invoice, _ := b.invoice(10_000)
		m.meddled("/v1/melt/quote/bolt11", func(status int, doc any) (int, any) {
			answer := doc.(meltAnswer)
			spoil(&answer)
			return status, answer
		})
		if _, err := w.MeltQuote(t.Context(), invoice); !errors.Is(err, ErrMint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One name for the quotes of two invoices would have the second paid in the
// place of the first.
func TestMintNamesTwoQuotesAlike(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, _ := b.open("payer")
	b.fill(w, 100)
	m.meddled("/v1/melt/quote/bolt11", func(status int, doc any) (int, any) {
		answer := doc.(meltAnswer)
		answer.Quote = "the only one"
		return status, answer
	})
	first, _ := b.invoice(10_000)
	second, _ := b.invoice(20_000)
	was := must[Melt](b)(w.MeltQuote(t.Context(), first))
	if _, err := w.MeltQuote(t.Context(), second); !errors.Is(err, ErrMint) || strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("%v", err)
	}
	if now := must[Melt](b)(w.LookupMelt(t.Context(), was.Hash)); now != was {
		t.Errorf("the first is %+v now, was %+v", now, was)
	}
}

// A mint that says it has paid has the notes; what it does not show, and change
// that it did not sign, count for nothing.
func TestMintLiesAboutMelts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*meltAnswer)
		cost  int64
	}{
		"no preimage":        {func(a *meltAnswer) { a.Preimage = "" }, 10},
		"another preimage":   {func(a *meltAnswer) { a.Preimage = strings.Repeat("ab", 32) }, 10},
		"change of air":      {func(a *meltAnswer) { a.Change[0].Amount = 1 << 19 }, 14},
		"no proof of change": {func(a *meltAnswer) { a.Change[0].DLEQ = nil }, 14},
		"more change":        {func(a *meltAnswer) { a.Change = append(a.Change, a.Change[0], a.Change[0], a.Change[0]) }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMint(t, 0)
			m.lightning(meltPaid, 4, 0)
			b := newBench(t, m.place())
			w, _ := b.open("payer")
			b.fill(w, 100)
			invoice, preimage := b.invoice(10_000)
			m.melts.preimages[preimage.Hash()] = preimage
			m.meddled(meltPath, func(status int, doc any) (int, any) {
				answer := doc.(meltAnswer)
				answer.Change = append([]blindSignature(nil), answer.Change...)
				c.spoil(&answer)
				return status, answer
			})
			melt := b.melt(w, invoice, 100)
			proven := strings.Contains(name, "change")
			if melt.State != MeltPaid || melt.CostSats != c.cost || melt.Preimage.IsZero() == proven {
				t.Errorf("melt %+v", melt)
			}
			if got := b.spendable(w); got != (100-c.cost)*1000 {
				t.Errorf("%d msats are left", got)
			}
		})
	}
}

// A mint that takes the notes and says that nothing was paid is told on; one that
// forgot the quote leaves what the notes say.
func TestMintForgetsMelts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie  func(status int, doc any) (int, any)
		want MeltState
	}{
		"says unpaid":     {func(status int, doc any) (int, any) { return status, meltAnswer{Quote: "m0", State: meltUnpaid} }, MeltFailed},
		"forgot":          {func(int, any) (int, any) { return no(20007, "no such quote") }, MeltPaid},
		"an unknown word": {nil, MeltPaid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMint(t, 0)
			b := newBench(t, m.place())
			cut := newCut(meltPath, 1, true)
			w, stop := b.open("payer", func(cfg *Config) { cfg.Transport = cut })
			b.fill(w, 100)
			invoice, _ := b.invoice(10_000)
			quote := must[Melt](b)(w.MeltQuote(t.Context(), invoice))
			if err := w.Melt(t.Context(), quote.Hash, 100); err != nil {
				t.Fatal(err)
			}
			<-cut.hit
			stop()
			lied := make(chan struct{}, 1000)
			if c.lie == nil {
				m.meddled("/v1/melt/quote/bolt11/", func(status int, _ any) (int, any) {
					lied <- struct{}{}
					return status, meltAnswer{Quote: "m0", State: "MAYBE"}
				})
			} else {
				m.meddled("/v1/melt/quote/bolt11/", c.lie)
			}
			w, _ = b.open("payer")
			if c.lie == nil {
				<-lied
				<-lied
				m.honest()
			}
			if melt := must[Melt](b)(w.AwaitMelt(t.Context(), quote.Hash)); melt.State != c.want {
				t.Errorf("melt %+v", melt)
			}
			if got := b.spendable(w); got != 90_000 {
				t.Errorf("%d msats are left", got)
			}
		})
	}
}

// A file of the first version keeps its notes and what they are reserved for.
func TestMigrationKeepsNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	path := b.dir + "/payer.db"
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Migrations: []string{schema}})
	if err != nil {
		t.Fatal(err)
	}
	seed := b.seeds["payer"]
	err = db.Update(t.Context(), func(tx *sqlite.Tx) error {
		_, err1 := tx.Exec(`INSERT INTO wallet VALUES (1, ?, ?)`, b.cfg.Mint, pointText(seed.nodeKey().PubKey()))
		_, err2 := tx.Exec(`INSERT INTO ops (id, kind, quote, inputs, outputs, state, at_ms) VALUES (7, 'export', '', '[]', '[]', 'done', ?)`, millis(time.Now()))
		_, err3 := tx.Exec(`INSERT INTO notes VALUES ('spent', '00', 8, '{}', 'spent', 7), ('free', '00', 4, '{}', 'free', NULL)`)
		return errors.Join(err1, err2, err3)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	w, _ := b.open("payer")
	if got := b.spendable(w); got != 4000 {
		t.Errorf("%d msats", got)
	}
	err = w.db.Update(t.Context(), func(tx *sqlite.Tx) error {
		var dangling int
		if err := tx.QueryRow(`SELECT count(*) FROM pragma_foreign_key_check`).Scan(&dangling); err != nil || dangling != 0 {
			t.Errorf("%d notes of no op, %v", dangling, err)
		}
		if err := insertOp(tx, op{kind: "melt", hash: payments.Hash{1}}); err != nil {
			return err
		}
		var id int64
		if err := tx.QueryRow(`SELECT max(id) FROM ops`).Scan(&id); err != nil || id != 8 {
			t.Errorf("the next op is %d, %v", id, err)
		}
		return errors.New("back")
	})
	if err == nil || !strings.Contains(err.Error(), "back") {
		t.Error(err)
	}
}
