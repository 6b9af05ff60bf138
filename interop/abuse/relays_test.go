package abuse_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// censor is a relay that says OK to everything, keeps nothing, and serves
// forgeries: requests and results with others' names and no signature of theirs.
type censor struct {
	mu    sync.Mutex
	heard []nostr.Event
}

// ServeHTTP takes one client.
func (c *censor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	for {
		_, doc, err := ws.Read(r.Context())
		if err != nil || c.answer(r.Context(), ws, doc) != nil {
			return
		}
	}
}

func (c *censor) answer(ctx context.Context, ws *websocket.Conn, doc []byte) error {
	var m []json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil || len(m) < 2 {
		return err
	}
	say := func(message ...any) error {
		text, err := json.Marshal(message)
		if err != nil {
			return err
		}
		return ws.Write(ctx, websocket.MessageText, text)
	}
	switch string(m[0]) {
	case `"EVENT"`:
		var ev nostr.Event
		if err := json.Unmarshal(m[1], &ev); err != nil {
			return err
		}
		c.mu.Lock()
		c.heard = append(c.heard, ev)
		c.mu.Unlock()
		return say("OK", ev.ID, true, "")
	case `"REQ"`:
		for _, ev := range c.forgeries() {
			if err := say("EVENT", m[1], ev); err != nil {
				return err
			}
		}
		return say("EOSE", m[1])
	}
	return nil
}

// forgeries are all events that went by, changed and with their old signature.
func (c *censor) forgeries() (list []nostr.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range c.heard {
		ev.Content = strings.ReplaceAll(ev.Content, "fruit", "sky") + " "
		list = append(list, ev)
		ev.ID = ev.GetID()
		list = append(list, ev)
	}
	return list
}

// TestCensoringRelay: one of two relays takes everything, passes on nothing and
// serves forgeries. The job is done over the other.
func TestCensoringRelay(t *testing.T) {
	c := &censor{}
	evil := httptest.NewServer(c)
	t.Cleanup(evil.CloseClientConnections)
	t.Cleanup(evil.Close)
	w := newWorld(t, "relays:\n", "relays:\n  - "+strings.Replace(evil.URL, "http", "ws", 1)+"\n")
	provider := w.sell(t)
	for _, mode := range []string{"free", "prepay"} {
		p := w.buy(t, provider, mode)
		if code := p.Ended(t); code != 0 {
			t.Errorf("%s: exit code %d", mode, code)
		}
		if o := outcomeOf(t, p); o.State != "done" || !strings.Contains(string(o.Output), `"id":"fruit"`) && !strings.Contains(string(o.Output), `"id": "fruit"`) {
			t.Errorf("%s: %+v", mode, o)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) == 0 {
		t.Error("the censor was not spoken to")
	}
}

// TestRelayLoss: the relay of the request is lost after the invoice. The result
// is found on the other, and the buyer who was away has it when it is back.
func TestRelayLoss(t *testing.T) {
	other := newWorld(t, "\nrelay:\n", "\nrelay:\n  uploaders: [\"*\"] # this provider's results too\n")
	w := newWorld(t, "relays:\n", "relays:\n  - "+other.Relay+"\n")
	provider := w.sell(t)
	here, there := newAttacker(t, w), newAttacker(t, other)
	slow := w.slow(t, here)
	job := here.ask(provider, "hold", strings.Replace(slow, "sleep 600", "true", 1))
	invoice := here.invoice(job.ID)
	w.Server.Stop(t)
	here.must(here.pay(invoice, price))
	there.await("the result on the other relay", results(job.ID))
	there.await("the end", answers(job.ID, "success"))
	if n := there.count(results(job.ID)); n != 1 {
		t.Errorf("%d results", n)
	}
}

// TestBuyersReadRelays: a buyer whose relays censor the provider reads the
// answers on a relay of its own list, which the provider has never heard of.
func TestBuyersReadRelays(t *testing.T) {
	other, w := newWorld(t), newWorld(t)
	provider := w.sell(t)
	here, there := newAttacker(t, w), newAttacker(t, other)
	here.put(here.sign(10002, "", nostr.Tag{"r", "wss://127.0.0.1:1", "write"}, nostr.Tag{"r", other.Relay}))
	job := here.ask(provider, "prepay", ranked)
	here.must(here.pay(there.invoice(job.ID), price))
	there.await("the result", results(job.ID))
	there.await("the end", answers(job.ID, "success"))
}
