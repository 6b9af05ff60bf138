package abuse_test

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

const attackerName = "attacker"

// attacker is a stranger: a key, a WebSocket to the relay, a wallet. It speaks
// the protocols by itself, and as badly as it likes.
type attacker struct {
	t        *testing.T
	secret   string
	key      string
	ws       *websocket.Conn
	wallet   *playnet.Client
	requests int

	mu      sync.Mutex
	events  []nostr.Event
	said    map[string]okay // by event id
	changed chan struct{}
}

type okay struct {
	ok   bool
	text string
}

// newAttacker connects a stranger that sees all that the relay passes on.
func newAttacker(t *testing.T, w *world) *attacker {
	t.Helper()
	a := &attacker{t: t, secret: nostr.GeneratePrivateKey(), said: map[string]okay{}, changed: make(chan struct{})}
	a.key, _ = nostr.GetPublicKey(a.secret)
	ws, _, err := websocket.Dial(t.Context(), w.Relay, nil)
	a.must(err)
	ws.SetReadLimit(4 << 20)
	a.ws = ws
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.read()
	}()
	t.Cleanup(func() { ws.CloseNow(); <-done })
	a.send("REQ", "all", nostr.Filter{Kinds: []int{5, 5050, 6050, 7000, 7001, 7002}})
	a.wallet, err = playnet.Dial(w.Ledger, playnet.NewToken())
	a.must(err)
	t.Cleanup(a.wallet.Close)
	a.must(a.wallet.OpenWallet(t.Context(), "attacker-"+a.key[:8]))
	return a
}

func (a *attacker) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *attacker) read() {
	for {
		_, doc, err := a.ws.Read(context.Background()) // ends as the connection does
		if err != nil {
			return
		}
		var m []json.RawMessage
		if json.Unmarshal(doc, &m) != nil || len(m) < 2 {
			continue
		}
		a.heard(string(m[0]), m[1:])
	}
}

func (a *attacker) heard(label string, m []json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case label == `"EVENT"` && len(m) == 2:
		var ev nostr.Event
		if json.Unmarshal(m[1], &ev) == nil {
			a.events = append(a.events, ev)
		}
	case label == `"OK"` && len(m) == 3:
		var id string
		var o okay
		_, _, _ = json.Unmarshal(m[0], &id), json.Unmarshal(m[1], &o.ok), json.Unmarshal(m[2], &o.text)
		a.said[id] = o
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *attacker) send(message ...any) {
	a.t.Helper()
	doc, err := json.Marshal(message)
	a.must(err)
	a.must(a.ws.Write(a.t.Context(), websocket.MessageText, doc))
}

// sign makes an event of the attacker's.
func (a *attacker) sign(kind int, content string, tags ...nostr.Tag) nostr.Event {
	a.t.Helper()
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: content}
	a.must(ev.Sign(a.secret))
	return ev
}

// publish offers an event and returns what the relay says of it.
func (a *attacker) publish(ev nostr.Event) okay {
	a.t.Helper()
	a.mu.Lock()
	delete(a.said, ev.ID)
	a.mu.Unlock()
	a.send("EVENT", ev)
	var answer okay
	a.until("the relay says OK", func() (ok bool) { answer, ok = a.said[ev.ID]; return ok })
	return answer
}

// put publishes what the relay has to take.
func (a *attacker) put(ev nostr.Event) {
	a.t.Helper()
	if o := a.publish(ev); !o.ok {
		a.t.Fatalf("the relay refuses kind %d: %s", ev.Kind, o.text)
	}
}

// until waits for a condition of what was heard; it holds a.mu meanwhile.
func (a *attacker) until(what string, is func() bool) {
	a.t.Helper()
	limit := time.After(outside.Patience)
	for {
		a.mu.Lock()
		ok, changed := is(), a.changed
		a.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			a.t.Fatalf("never: %s", what)
		}
	}
}

// await returns the first event that fits.
func (a *attacker) await(what string, fits func(nostr.Event) bool) (found nostr.Event) {
	a.t.Helper()
	a.until(what, func() bool {
		for _, ev := range a.events {
			if fits(ev) {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

// count is how many events fit by now.
func (a *attacker) count(fits func(nostr.Event) bool) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ev := range a.events {
		if fits(ev) {
			n++
		}
	}
	return n
}

// answers fits the feedback of one status to a request; "" is any.
func answers(requestID, status string) func(nostr.Event) bool {
	return func(ev nostr.Event) bool {
		s := ev.Tags.Find("status")
		return ev.Kind == 7000 && s != nil && (status == "" || s[1] == status) && ev.Tags.ContainsAny("e", []string{requestID})
	}
}

// results fits the results of a request.
func results(requestID string) func(nostr.Event) bool {
	return func(ev nostr.Event) bool {
		return ev.Kind == 6050 && ev.Tags.ContainsAny("e", []string{requestID})
	}
}

// request is a typed request of the attacker's, not yet published.
func (a *attacker) request(provider, mode, job string, more ...nostr.Tag) nostr.Event {
	a.t.Helper()
	schema := rerank
	if job != ranked {
		schema = "oa.sandbox_run.v1"
	}
	tags := append(nostr.Tags{{"param", "schema", schema}, {"param", "payment_mode", mode}, {"i", job, "text"}, {"p", provider}}, more...)
	a.requests++ // no two requests of a second are one
	tags = append(tags, nostr.Tag{"n", strconv.Itoa(a.requests)})
	return a.sign(5050, "", tags...)
}

// ask publishes a request and returns it.
func (a *attacker) ask(provider, mode, job string, more ...nostr.Tag) nostr.Event {
	a.t.Helper()
	ev := a.request(provider, mode, job, more...)
	a.put(ev)
	return ev
}

// invoice waits for the invoice of a request.
func (a *attacker) invoice(requestID string) string {
	a.t.Helper()
	return a.await("an invoice", answers(requestID, "payment-required")).Tags.Find("amount")[2]
}

// refused waits for the refusal of a request and returns its words.
func (a *attacker) refused(requestID string) string {
	a.t.Helper()
	return a.await("a refusal", answers(requestID, "error")).Tags.Find("status")[2]
}

// pay sends the payment; how it ends is to be looked at elsewhere.
func (a *attacker) pay(bolt11 string, msats int64) error {
	return a.wallet.SendPayment(a.t.Context(), payments.Pay{BOLT11: bolt11, AmountMsats: msats, FeeLimitMsats: 1000})
}

func (a *attacker) balance() int64 {
	a.t.Helper()
	b, err := a.wallet.Balance(a.t.Context())
	a.must(err)
	return b.SpendableMsats
}

// ping returns once the provider has answered: it is alive, and has taken in
// what the relay passed on before.
func (a *attacker) ping(provider string) {
	a.t.Helper()
	ev := a.sign(7007, "", nostr.Tag{"p", provider}, nostr.Tag{"nonce", strconv.FormatInt(time.Now().UnixNano(), 10)})
	a.put(ev)
	a.await("a pong", answers(ev.ID, "pong"))
}
