package nwc

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// asDomain signs an event as another document, or with none if d is empty.
func asDomain(t *testing.T, ev nostr.Event, s Secret, d domain.Domain) nostr.Event {
	t.Helper()
	var tags nostr.Tags
	for _, tag := range ev.Tags {
		if tag[0] != domain.TagName {
			tags = append(tags, tag)
		}
	}
	if d != "" {
		tags = append(tags, d.Tag())
	}
	ev.Tags = tags
	if err := s.key.Sign(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

// TestOtherDocumentsAreNoAnswer: a refusal that the wallet signed as something else
// ends no payment. An answer of a wallet that knows no domains counts.
func TestOtherDocumentsAreNoAnswer(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	node, err := openWallet(t, l, "node").Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := newBill(t, openWallet(t, l, "payee"))
	f := startFake(t, url, node, func(f *fake, ev nostr.Event, r request) (answers []nostr.Event) {
		if r.Method != PayInvoice {
			return f.refuse(ev, r.Method, CodeNotFound)
		}
		refusal := f.refuse(ev, PayInvoice, CodePaymentFailed)[0]
		for _, d := range domain.All() {
			if d != domain.Wallet {
				answers = append(answers, asDomain(t, refusal, f.app.Wallet, d))
			}
		}
		paid := f.sealed(ev.ID, `{"result_type":"pay_invoice","result":{"preimage":"`+b.preimage.String()+`","fees_paid":3}}`)
		return append(answers, asDomain(t, paid, f.app.Wallet, ""))
	})
	client := startClient(t, Config{Connection: f.conn, CallTimeout: patience})
	checkOutcome(t, client, b, client.SendPayment(t.Context(), b.pay()), nil)
}

// refusals counts what a service without room for requests says of them.
type refusals struct {
	slog.Handler
	seen int
}

func (r *refusals) Enabled(context.Context, slog.Level) bool { return true }

func (r *refusals) Handle(context.Context, slog.Record) error {
	r.seen++
	return nil
}

// TestOtherDocumentsAreNoRequest: what an app signed as something else is not looked
// at. The service has no room here, so that it says of each request that it takes up
// that there are too many.
func TestOtherDocumentsAreNoRequest(t *testing.T) {
	l := openLedger(t, playnet.Config{})
	a, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, openWallet(t, l, "w"), filepath.Join(t.TempDir(), "book.db"), a)
	secret, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	o.apps[0].Client, o.apps[0].slots = secret.PublicKey(), make(chan struct{})
	log := &refusals{}
	o.cfg.Log = slog.New(log)
	for _, d := range append(domain.All(), "") {
		ev := asDomain(t, nostr.Event{Kind: kindRequest, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", a.Wallet.PublicKey()}}}, secret, d)
		log.seen = 0
		var work sync.WaitGroup
		o.take(t.Context(), &work, ev)
		work.Wait()
		if taken := log.seen == 1; taken != (d == domain.Wallet || d == "") {
			t.Errorf("%q taken up as a request: %v", d, taken)
		}
	}
}
