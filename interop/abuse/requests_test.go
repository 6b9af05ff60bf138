package abuse_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// TestForgedAndReplayedRequests: a forged request goes nowhere, and one that is
// sent again, also to a provider that was restarted, is one job.
func TestForgedAndReplayedRequests(t *testing.T) {
	w := newWorld(t)
	provider := w.sell(t)
	a, victim := newAttacker(t, w), newAttacker(t, w)

	forged := victim.request(provider, "free", ranked)
	forged.Tags = append(forged.Tags, nostr.Tag{"relays", "wss://attacker.example.com"})
	if o := a.publish(forged); o.ok {
		t.Error("the relay takes a request whose id is another's")
	}
	forged.ID = forged.GetID()
	if o := a.publish(forged); o.ok {
		t.Error("the relay takes a request with another's signature")
	}
	stale := a.request(provider, "free", ranked)
	stale.CreatedAt -= 2 * 60 * 60
	a.must(stale.Sign(a.secret))
	a.put(stale)
	over := a.request(provider, "free", ranked, nostr.Tag{"expiration", fmt.Sprint(time.Now().Add(-time.Minute).Unix())})
	if o := a.publish(over); o.ok {
		t.Error("the relay takes a request that has expired")
	}
	job := victim.ask(provider, "free", ranked)
	victim.await("a result", results(job.ID))
	for range 5 {
		a.put(job)
	}
	w.node.Stop(t)
	if w.sell(t) != provider {
		t.Fatal("the provider has another key")
	}
	a.put(job)
	last := a.ask(provider, "free", ranked)
	a.await("the result of another job", results(last.ID))
	a.await("its end", answers(last.ID, "success"))
	if n, m := a.count(results(job.ID)), a.count(answers(job.ID, "processing")); n != 1 || m != 1 {
		t.Errorf("%d results and %d beginnings of one job", n, m)
	}
	if n := a.count(answers(stale.ID, "")) + a.count(answers(forged.ID, "")); n != 0 {
		t.Errorf("%d answers to what is stale or forged", n)
	}
}

// TestSpam: invoices that nobody pays and requests that cannot be meant cost the
// provider little, and end at its limits; of four places one is for keys that have
// paid here before.
func TestSpam(t *testing.T) {
	w := newWorld(t, "unpaid_per_buyer: 8", "unpaid_per_buyer: 2", "unpaid: 256 ", "unpaid: 4 ", "# free_pow_bits: 20", "free_pow_bits: 12")
	provider := w.sell(t)
	a, b := newAttacker(t, w), newAttacker(t, w)
	for range 2 {
		a.invoice(a.ask(provider, "prepay", ranked).ID)
	}
	if why := a.refused(a.ask(provider, "prepay", ranked).ID); !strings.HasPrefix(why, "too_many_unpaid: ") {
		t.Error(why)
	}
	b.invoice(b.ask(provider, "prepay", ranked).ID)
	if why := b.refused(b.ask(provider, "prepay", ranked).ID); !strings.HasPrefix(why, "too_many_unpaid: ") {
		t.Error(why)
	}
	if why := b.refused(b.ask(provider, "free", ranked).ID); !strings.HasPrefix(why, "proof_of_work_needed: ") {
		t.Error(why)
	}
	// Leading zeros that the request does not commit to are luck, not work.
	if why := b.refused(b.worked(provider, "1").ID); !strings.HasPrefix(why, "proof_of_work_needed: ") {
		t.Error(why)
	}
	b.await("a result for work", results(b.worked(provider, "12").ID))
	if why := b.refused(b.ask(provider, "prepay", ranked, nostr.Tag{"bid", "1999"}).ID); !strings.HasPrefix(why, "bid_too_low: ") {
		t.Error(why)
	}
	c := newAttacker(t, w)
	began := time.Now()
	asked := map[string]bool{}
	for range 40 {
		asked[c.ask(provider, "prepay", ranked, nostr.Tag{"bid", "1"}).ID] = true
	}
	a.ping(provider)
	refusals := c.count(func(ev nostr.Event) bool { return ev.Kind == 7000 && asked[ev.Tags.Find("e")[1]] })
	if most := 10 + int(time.Since(began)/(6*time.Second)) + 1; refusals > most {
		t.Errorf("%d of 40 bad requests were answered, at most %d should be", refusals, most)
	}
}

// worked publishes a request for a free job whose id begins with 12 zero bits,
// and which commits to as many as target says (NIP-13).
func (a *attacker) worked(provider, target string) nostr.Event {
	a.t.Helper()
	ev := a.request(provider, "free", ranked, nostr.Tag{"nonce", "0", target})
	for n := 0; !strings.HasPrefix(ev.GetID(), "000"); n++ {
		ev.Tags.Find("nonce")[1] = fmt.Sprint(n)
	}
	a.must(ev.Sign(a.secret))
	a.put(ev)
	return ev
}

// TestAddressesInRequests: nothing that a stranger names is looked up. Loopback
// is barred here as any private address, for no blob server is on it.
func TestAddressesInRequests(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var visits atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	canary := ln.Addr().String()

	w := newWorld(t, "# blobs:\n#   - https://blobs.example.com", "blobs:\n  - https://blobs.example.com")
	provider := w.sell(t)
	a := newAttacker(t, w)
	wants := map[string]string{}
	for typ, code := range map[string]string{"url": "unsupported_input: ", "event": "input_missing: ", "job": "input_missing: "} {
		data := "http://" + canary + "/"
		if typ != "url" {
			data = strings.Repeat("a", 64)
		}
		// What does not come is given up when the request expires; the relay that is named is not asked.
		soon := nostr.Tag{"expiration", fmt.Sprint(time.Now().Add(10 * time.Second).Unix())}
		typed := a.sign(5050, "", nostr.Tag{"param", "schema", rerank}, nostr.Tag{"i", data, typ, "ws://" + canary}, nostr.Tag{"p", provider}, soon)
		untyped := a.sign(5050, "", nostr.Tag{"i", data, typ, "ws://" + canary}, nostr.Tag{"p", provider})
		for _, ev := range []nostr.Event{typed, untyped} {
			if ev.ID == untyped.ID && typ != "url" {
				code = "untyped_job: " // which is not on offer, so nothing is waited for
			}
			a.put(ev)
			wants[ev.ID] = code
		}
	}
	for id, code := range wants { // they wait beside each other
		if why := a.refused(id); !strings.HasPrefix(why, code) {
			t.Errorf("%s, want %s", why, code)
		}
	}
	for _, source := range []string{"https://" + canary + "/r.git", "https://127.0.0.1/r.git", "https://169.254.169.254/r.git", "file:///etc/passwd"} {
		job := `{"sandbox":{"provider":"host","image_digest":"sha256:` + strings.Repeat("0", 64) + `"},"repo":{"source":"` + source + `","git_ref":"` + strings.Repeat("a", 40) + `"},"commands":[{"cmd":"true"}]}`
		b := newAttacker(t, w)
		if why := b.refused(b.ask(provider, "hold", job).ID); !strings.HasPrefix(why, "invalid_input: ") {
			t.Errorf("%s: %s", source, why)
		}
	}
	b := newAttacker(t, w)
	b.put(b.sign(10002, "", nostr.Tag{"r", "wss://" + canary + "/list"}, nostr.Tag{"r", "ws://" + canary + "/list", "read"}))
	b.invoice(b.ask(provider, "prepay", ranked).ID)
	b.invoice(b.ask(provider, "prepay", ranked, nostr.Tag{"relays", "ws://" + canary, "wss://" + canary, "wss://169.254.169.254"}).ID)
	w.node.Stop(t) // and every errand with it
	if n := visits.Load(); n != 0 {
		t.Errorf("%d visits to an address that a stranger named", n)
	}
}

// TestOversize: what is too large or too deep is refused at the door, and the
// provider goes on.
func TestOversize(t *testing.T) {
	w := newWorld(t)
	provider := w.sell(t)
	a := newAttacker(t, w)
	many := make(nostr.Tags, 3000)
	for i := range many {
		many[i] = nostr.Tag{"t", fmt.Sprint(i)}
	}
	for what, ev := range map[string]nostr.Event{
		"a large document": a.request(provider, "prepay", strings.Repeat("x", 70_000)),
		"3000 tags":        a.request(provider, "prepay", ranked, many...),
		"a huge one":       a.request(provider, "prepay", strings.Repeat("x", 900_000)),
	} {
		if o := a.publish(ev); o.ok {
			t.Errorf("the relay takes %s", what)
		}
	}
	for what, job := range map[string]string{
		"depth":          strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"candidates":     `{"user_task":"x","k":1,"candidates":[` + strings.Repeat(`{"id":"a","content":""},`, 2000) + `{"id":"b","content":""}]}`,
		"duplicate keys": `{"user_task":"x","user_task":"y"}`,
		"no JSON":        "\x00",
	} {
		b := newAttacker(t, w)
		if why := b.refused(b.rerank(provider, job).ID); !strings.HasPrefix(why, "invalid_input: ") {
			t.Errorf("%s: %s", what, why)
		}
	}
	for _, hidden := range []string{
		"AgAA", strings.Repeat("A", 60_000), "?iv=", strings.Repeat("A", 40_000) + "?iv=" + strings.Repeat("A", 10_000),
	} {
		b := newAttacker(t, w)
		ev := b.sign(5050, hidden, nostr.Tag{"encrypted"}, nostr.Tag{"p", provider})
		b.put(ev)
		b.await("a refusal, hidden as the request is", func(said nostr.Event) bool {
			return said.Kind == 7000 && said.Tags.ContainsAny("e", []string{ev.ID})
		})
	}
	a.must(a.ws.Write(t.Context(), websocket.MessageText, []byte(`["EVENT",`+strings.Repeat("[", 60_000))))
	a.ping(provider)
}

// rerank asks for a ranking with any document.
func (a *attacker) rerank(provider, document string) nostr.Event {
	a.t.Helper()
	ev := a.sign(5050, "", nostr.Tag{"param", "schema", rerank}, nostr.Tag{"i", document, "text"}, nostr.Tag{"p", provider})
	a.put(ev)
	return ev
}

// TestFloodOfMessages: a connection that sends more than its share is slowed
// and loses nobody else's events.
func TestFloodOfMessages(t *testing.T) {
	w := newWorld(t)
	provider := w.sell(t)
	a, b := newAttacker(t, w), newAttacker(t, w)
	for range 3000 {
		doc, err := json.Marshal([]any{"REQ", "flood", nostr.Filter{Limit: 1}})
		a.must(err)
		if a.ws.Write(t.Context(), websocket.MessageText, doc) != nil {
			break // it was dropped, which is fine
		}
	}
	job := b.ask(provider, "free", ranked)
	b.await("a result", results(job.ID))
}
