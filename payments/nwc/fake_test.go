package nwc

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay"
)

// fake is a wallet service of which the test writes every answer.
type fake struct {
	t       *testing.T
	app     App
	conn    Connection
	channel *channel
	pool    *relay.Pool
	scheme  Scheme

	mu    sync.Mutex
	asked []Method
	// answer is called for each request but get_info. It returns what is to be
	// published, if anything.
	answer func(ev nostr.Event, r request) []nostr.Event
}

// startFake publishes an info event and answers until the test ends.
func startFake(t *testing.T, url string, node payments.Node, answer func(f *fake, ev nostr.Event, r request) []nostr.Event, encryption ...string) *fake {
	t.Helper()
	f := &fake{t: t, scheme: NIP44}
	f.app, f.conn = newApp(t, url)
	f.answer = func(ev nostr.Event, r request) []nostr.Event {
		if r.Method == GetInfo {
			return f.result(ev, GetInfo, infoResult{PubKey: node.PubKey, Network: string(node.Network), BlockHeight: 100})
		}
		return answer(f, ev, r)
	}
	var err error
	if f.channel, err = newChannel(f.app.Wallet, f.app.Client); err != nil {
		t.Fatal(err)
	}
	if f.pool, err = relay.NewPool(relay.Config{URLs: []string{url}, MaxEventBytes: maxEvent}); err != nil {
		t.Fatal(err)
	}
	run(t, f.serve)
	info, err := f.app.infoEvent()
	if len(encryption) > 0 {
		info.Tags = nostr.Tags{nostr.Tag(append([]string{"encryption"}, encryption...))}
		err = f.app.Wallet.sign(&info)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.publish(info)
	return f
}

func (f *fake) serve(ctx context.Context) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { _ = f.pool.Serve(ctx) })
	filter := nostr.Filter{Kinds: []int{kindRequest}, Tags: nostr.TagMap{"p": {f.conn.Wallet}}}
	sub, err := f.pool.Subscribe(ctx, []nostr.Filter{filter}, relay.SubscribeOptions{})
	if err != nil {
		return err
	}
	defer sub.Close()
	for in := range sub.Events() {
		doc, err := f.channel.open(f.scheme, in.Event.Content)
		if err != nil {
			f.t.Errorf("the client seals by another scheme: %v", err)
			continue
		}
		r, err := parseRequest(doc)
		if err != nil {
			f.t.Error(err)
		}
		f.mu.Lock()
		f.asked = append(f.asked, r.Method)
		f.mu.Unlock()
		for _, ev := range f.answer(in.Event, r) {
			f.pool.Publish(ctx, ev)
		}
	}
	return nil
}

func (f *fake) publish(ev nostr.Event) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for relay.Accepted(f.pool.Publish(context.Background(), ev)) == 0 {
		if time.Now().After(deadline) {
			f.t.Fatal("no relay takes the event")
		}
	}
}

func (f *fake) count(m Method) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a == m {
			n++
		}
	}
	return n
}

// sealed is a response event with any text inside.
func (f *fake) sealed(e string, text string) nostr.Event {
	content, err := f.channel.seal(f.scheme, []byte(text))
	if err != nil {
		f.t.Error(err)
	}
	return f.signed(nostr.Event{Kind: kindResponse, CreatedAt: nostr.Now(), Content: content, Tags: nostr.Tags{{"p", f.app.Client}, {"e", e}}})
}

func (f *fake) signed(ev nostr.Event) nostr.Event {
	if err := f.app.Wallet.sign(&ev); err != nil {
		f.t.Error(err)
	}
	return ev
}

func (f *fake) result(ev nostr.Event, m Method, v any) []nostr.Event {
	raw, err := json.Marshal(v)
	if err != nil {
		f.t.Error(err)
	}
	doc, err := json.Marshal(response{ResultType: m, Result: raw})
	if err != nil {
		f.t.Error(err)
	}
	return []nostr.Event{f.sealed(ev.ID, string(doc))}
}

func (f *fake) refuse(ev nostr.Event, m Method, code Code) []nostr.Event {
	doc, err := json.Marshal(response{ResultType: m, Error: &wireError{Code: string(code), Message: "no"}})
	if err != nil {
		f.t.Error(err)
	}
	return []nostr.Event{f.sealed(ev.ID, string(doc))}
}

// bill is an invoice that a stranger made, and its preimage.
type bill struct {
	payments.Invoice
	preimage payments.Preimage
}

func (b bill) pay() payments.Pay {
	return payments.Pay{BOLT11: b.BOLT11, AmountMsats: b.AmountMsats, FeeLimitMsats: 1000, Timeout: 100 * time.Millisecond}
}

func newBill(t testing.TB, w *playnet.Wallet) bill {
	t.Helper()
	var p payments.Preimage
	rand.Read(p[:])
	inv, err := w.CreateInvoice(context.Background(), payments.NewInvoice{Preimage: p, AmountMsats: 20_000, DescriptionHash: hashing.Bytes(p[:]), Expiry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return bill{inv, p}
}
