package cashu

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// sentTo gives the payee a message, and waits until it was looked at.
func (b *bench) sentTo(payee *Wallet, hash payments.Hash, notes []note) (state string) {
	b.Helper()
	doc := must[[]byte](b)(formatMessage(hash, b.cfg.Mint, notes))
	payee.onMessage(b.Context(), doc)
	for {
		changed := payee.change()
		err := payee.db.View(b.Context(), func(tx *sqlite.Tx) error {
			return tx.QueryRow(`SELECT state FROM arrivals WHERE payment_hash = ? ORDER BY id DESC LIMIT 1`, hash[:]).Scan(&state)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return "refused" // at once
		}
		if err != nil {
			b.Fatal(err)
		}
		if state != "new" {
			return state
		}
		<-changed
	}
}

// lockedNotes pays an invoice that nobody delivers, and returns its notes.
func (b *bench) lockedNotes(payer *Wallet, l lock, sats int64) []note {
	b.Helper()
	k := must[*keyset](b)(payer.active(b.Context()))
	var o op
	err := payer.db.Update(b.Context(), func(tx *sqlite.Tx) error {
		free, err := freeNotes(tx)
		if err != nil {
			return err
		}
		p, err := planPayment(payer.keysets, k, free, sats)
		if err != nil {
			return err
		}
		o.inputs = p.inputs
		if o.outputs, err = payer.outputs(tx, k, p.locked, &l); err != nil {
			return err
		}
		change, err := payer.outputs(tx, k, p.change, nil)
		o.outputs = append(o.outputs, change...)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	sigs := must[[]blindSignature](b)(payer.mint.swap(b.Context(), o.inputs, o.outputs))
	var notes, change []note
	for i, out := range o.outputs {
		if n := must[note](b)(out.note(sigs[i], k)); out.Locked {
			notes = append(notes, n)
		} else {
			change = append(change, n)
		}
	}
	err = payer.db.Update(b.Context(), func(tx *sqlite.Tx) error {
		for _, n := range o.inputs {
			if _, err := tx.Exec(`DELETE FROM notes WHERE secret = ?`, n.Secret); err != nil {
				return err
			}
		}
		return insertNotes(tx, change)
	})
	if err != nil {
		b.Fatal(err)
	}
	return notes
}

// What a payer sends is looked at before it counts.
func TestPayerCheats(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	other := newFakeMint(t, 0)
	other.mu.Lock()
	other.rotate()
	other.mu.Unlock()
	b := newBench(t, m.place())
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 10_000)
	stranger := newSeed(t).nodeKey()
	for name, c := range map[string]struct {
		lock  func(*lock)
		sats  int64
		notes func([]note) []note
		want  string
	}{
		"as the invoice says":       {want: "taken"},
		"more than the invoice":     {sats: 60, want: "taken"},
		"a sat too little":          {sats: 49, want: "refused"},
		"locked to another hash":    {lock: func(l *lock) { l.hash = payments.Hash{1} }, want: "refused"},
		"locked to another key":     {lock: func(l *lock) { l.payee = pointText(stranger.PubKey()) }, want: "refused"},
		"locked too short":          {lock: func(l *lock) { l.until = time.Now().Unix() + 20 }, want: "refused"},
		"an amount that was raised": {notes: func(n []note) []note { n[0].Amount *= 2; return n }, want: "refused"},
		"no proof":                  {notes: func(n []note) []note { n[0].DLEQ = nil; return n }, want: "refused"},
		"another note's proof":      {notes: func(n []note) []note { n[0].DLEQ = n[1].DLEQ; return n }, want: "refused"},
		"keys of another mint":      {notes: func(n []note) []note { n[0].Keyset = other.id; return n }, want: "refused"},
		"spent before": {notes: func(n []note) []note {
			m.mu.Lock()
			defer m.mu.Unlock()
			y, _ := n[0].y()
			m.spent[y] = ""
			return n
		}, want: "refused"},
	} {
		preimage := payments.Preimage{byte(len(name)), name[0], name[len(name)-1]}
		inv := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(preimage, true, 50_000)))
		l := lock{hash: inv.PaymentHash, payee: payee.node, refund: pointText(stranger.PubKey()), until: time.Now().Add(b.cfg.Lock).Unix()}
		if c.lock != nil {
			c.lock(&l)
		}
		if c.sats == 0 {
			c.sats = 50
		}
		notes := b.lockedNotes(payer, l, c.sats)
		if c.notes != nil {
			notes = c.notes(notes)
		}
		if got := b.sentTo(payee, inv.PaymentHash, notes); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		state := must[payments.Invoice](b)(payee.LookupInvoice(t.Context(), inv.PaymentHash)).State
		if held := state == payments.InvoiceHeld; held != (c.want == "taken") {
			t.Errorf("%s: the invoice is %s", name, state)
		}
	}
}

// Whoever reads the invoice can write to its payee: what they make up does not
// keep the payer's notes out.
func TestStrangersMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 100)
	inv := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(b.secret(), true, 50_000)))
	l := lock{hash: inv.PaymentHash, payee: payee.node, refund: payer.node, until: time.Now().Add(b.cfg.Lock).Unix()}
	for i := range byte(3 * maxArrivals) {
		made := note{Amount: 50, Keyset: b.keyset(payee), Secret: must[string](b)(l.noteSecret(string('a' + rune(i)))), C: "02" + strings.Repeat("ab", 32)}
		if i%2 == 0 {
			made.Keyset = "00000000000000ff" // of nobody
		}
		if got := b.sentTo(payee, inv.PaymentHash, []note{made}); got != "refused" {
			t.Fatalf("made up: %s", got)
		}
	}
	if got := b.sentTo(payee, inv.PaymentHash, b.lockedNotes(payer, l, 50)); got != "taken" {
		t.Errorf("the payer's: %s", got)
	}
}

// keyset is what the wallet's new notes are made of.
func (b *bench) keyset(w *Wallet) string {
	b.Helper()
	return must[*keyset](b)(w.active(b.Context())).id
}

// Messages from anybody are refused without a panic, and cost nothing.
func TestMessagesAreStrict(t *testing.T) {
	t.Parallel()
	hash := payments.Hash{1}
	good := `{"id":"` + hash.String() + `","mint":"https://mint.example.com/","unit":"sat","memo":"hello","proofs":[{"amount":1,"id":"0011223344556677","secret":"s","C":"02"}]}`
	if _, _, err := parseMessage([]byte(good), "mint.example.com"); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`{`, `[`},
		{`"sat"`, `"usd"`},
		{`mint.example.com`, `other.example`},
		{hash.String(), "AB"},
		{`"amount":1`, `"amount":0`},
		{`"amount":1`, `"amount":1.5`},
		{`"amount":1`, `"amount":9007199254740993`},
		{`"amount":1`, `"amount":1,"amount":2`},
		{`0011223344556677`, `00`},
		{`"secret":"s"`, `"secret":"` + strings.Repeat("s", 1025) + `"`},
		{`"proofs":[`, `"proofs":[{"amount":1,"id":"0011223344556677","secret":"s","C":"02"},`},
		{`[{"amount":1,"id":"0011223344556677","secret":"s","C":"02"}]`, `[]`},
		{`hello`, strings.Repeat("h", maxMessage)},
	} {
		doc := strings.Replace(good, change[0], change[1], 1)
		if _, _, err := parseMessage([]byte(doc), "mint.example.com"); !errors.Is(err, ErrMessage) {
			t.Errorf("%.200s: %v", doc, err)
		}
	}
}
