package cashu

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// meddled answers a path of the mint's in its place.
func (m *fakeMint) meddled(path string, with func(status int, doc any) (int, any)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = func(p string, answer func() (int, any)) (int, any) {
		if strings.HasPrefix(p, path) {
			return with(answer())
		}
		return answer()
	}
}

func (m *fakeMint) honest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = nil
}

// Keys that are not what their id says, or that make no sense, are not used.
func TestMintLiesAboutKeys(t *testing.T) {
	t.Parallel()
	list := func(id, unit string, active bool, fee any) any {
		return map[string]any{"keysets": []any{map[string]any{"id": id, "unit": unit, "active": active, "input_fee_ppk": fee}}}
	}
	m := newFakeMint(t, 0)
	for name, c := range map[string]struct {
		path string
		doc  any
		want error
	}{
		"another id":     {"/v1/keysets", list("00ffffffffffffff", "sat", true, 0), ErrKeyset},
		"another unit":   {"/v1/keysets", list(m.id, "usd", true, 0), ErrKeyset},
		"none active":    {"/v1/keysets", list(m.id, "sat", false, 0), ErrKeyset},
		"a robber's fee": {"/v1/keysets", list(m.id, "sat", true, 1_000_000), ErrKeyset},
		"negative fee":   {"/v1/keysets", list(m.id, "sat", true, -1), ErrKeyset},
		"fee as text":    {"/v1/keysets", list(m.id, "sat", true, "0"), ErrMint},
		"no keys":        {"/v1/keys/", map[string]any{"keysets": []any{}}, ErrKeyset},
		"a key missing":  {"/v1/keys/", map[string]any{"keysets": []any{map[string]any{"id": m.id, "keys": map[string]string{"1": pointText(m.keys[1].PubKey())}}}}, ErrKeyset},
		"no point":       {"/v1/keys/", map[string]any{"keysets": []any{map[string]any{"id": m.id, "keys": map[string]string{"1": "02ff"}}}}, ErrKeyset},
		"no JSON":        {"/v1/keysets", "<html>", ErrMint},
		"twice a key":    {"/v1/keysets", `{"keysets":[],"keysets":[]}`, ErrMint},
		"huge":           {"/v1/keysets", `{"keysets":"` + strings.Repeat("a", maxAnswer) + `"}`, ErrMint},
	} {
		b := newBench(t, m.place())
		w, stop := b.open("payer")
		m.meddled(c.path, func(int, any) (int, any) { return http.StatusOK, c.doc })
		if _, err := w.Topup(t.Context(), 10); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		m.honest()
		stop()
	}
}

// A mint that signs something else than it was asked to gives no notes; what is
// true later is taken then.
func TestMintSignsWrongly(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*blindSignature){
		"another amount":  func(s *blindSignature) { s.Amount *= 2 },
		"another keyset":  func(s *blindSignature) { s.Keyset = "00ffffffffffffff" },
		"no proof":        func(s *blindSignature) { s.DLEQ = nil },
		"another proof":   func(s *blindSignature) { s.DLEQ = &dleq{E: s.DLEQ.S, S: s.DLEQ.E} },
		"another point":   func(s *blindSignature) { s.C = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798" },
		"no point at all": func(s *blindSignature) { s.C = "00" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMint(t, 0)
			b := newBench(t, m.place())
			w, _ := b.open("payer")
			lied := make(chan struct{}, 100)
			spoiled := func(status int, doc any) (int, any) {
				sigs, ok := doc.(map[string]any)["signatures"].([]blindSignature)
				if !ok || len(sigs) == 0 {
					return status, doc
				}
				out := append([]blindSignature(nil), sigs...)
				spoil(&out[0])
				lied <- struct{}{}
				return status, map[string]any{"signatures": out, "outputs": doc.(map[string]any)["outputs"]}
			}
			m.meddled("/v1/mint/bolt11", spoiled)
			topup := must[Topup](b)(w.Topup(t.Context(), 3))
			<-lied
			m.meddled("/v1/restore", spoiled)
			<-lied // asked again, it lies again
			if got := b.spendable(w); got != 0 {
				t.Errorf("%d msats of nothing", got)
			}
			m.honest()
			if err := w.AwaitTopup(t.Context(), topup); err != nil {
				t.Fatal(err)
			}
			if got := b.spendable(w); got != 3000 {
				t.Errorf("%d msats", got)
			}
		})
	}
}

// sentTo gives the payee a message, and waits until it was looked at.
func (b *bench) sentTo(payee *Wallet, hash payments.Hash, notes []note) (state string) {
	b.Helper()
	doc := must[[]byte](b)(formatMessage(hash, b.cfg.Mint, notes))
	payee.arrived(b.Context(), doc)
	for {
		changed := payee.change()
		err := payee.db.View(b.Context(), func(tx *sqlite.Tx) error {
			return tx.QueryRow(`SELECT state FROM arrivals WHERE payment_hash = ? ORDER BY id DESC LIMIT 1`, hash[:]).Scan(&state)
		})
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
	b.cfg.Lock = time.Minute
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 10_000)
	stranger := NewSeed().nodeKey()
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

// A mint that answers too slowly is away, and one that is away changes nothing.
func TestMintIsSlow(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, _ := b.open("payer", func(c *Config) { c.Transport = stuck{} })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Topup(ctx, 1); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("%v", err)
	}
}

// stuck never answers.
type stuck struct{}

func (stuck) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// More than the bound does not get to the mint.
func TestCap(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, _ := b.open("payee", func(c *Config) { c.MaxMsats = 100_000 })
	b.fill(w, 60)
	if _, err := w.Topup(t.Context(), 41); !errors.Is(err, ErrCap) {
		t.Errorf("top-up: %v", err)
	}
	if _, err := w.CreateInvoice(t.Context(), ask(b.secret(), true, 40_001)); !errors.Is(err, ErrCap) {
		t.Errorf("invoice: %v", err)
	}
	must[payments.Invoice](b)(w.CreateInvoice(t.Context(), ask(b.secret(), true, 40_000)))
	if _, err := w.CreateInvoice(t.Context(), ask(b.secret(), true, 1)); !errors.Is(err, ErrCap) {
		t.Errorf("open invoices count: %v", err)
	}
}
