package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestPublishAndSubscribe(t *testing.T) {
	r := start(t, Config{})
	alice, bob := r.dial(), r.dial()
	alice.put(note(t, "old", 30))
	alice.put(note(t, "older", 60))
	bob.send(`["REQ","s",{"kinds":[1]}]`)
	bob.expect("EVENT s old")
	bob.expect("EVENT s older")
	bob.expect("EOSE s")
	live := note(t, "live", 0)
	alice.put(live)
	bob.expect("EVENT s live")

	alice.publish(live)
	alice.expect("OK true " + duplicateText)
	bob.send(`["CLOSE","s"]`)
	bob.send(`["REQ","s2",{"kinds":[1],"limit":0}]`)
	bob.expect("EOSE s2") // and not the duplicate
	alice.put(note(t, "after", 0))
	bob.expect("EVENT s2 after")
}

func TestReqOverwritesSubscription(t *testing.T) {
	r := start(t, Config{})
	alice, bob := r.dial(), r.dial()
	bob.send(`["REQ","s",{"kinds":[1]}]`)
	bob.expect("EOSE s")
	bob.send(`["REQ","s",{"kinds":[2]}]`)
	bob.expect("EOSE s")
	alice.put(note(t, "kind 1", 0))
	alice.put(sign(t, aliceSecret, nostr.Event{Kind: 2, Content: "kind 2"}))
	bob.expect("EVENT s kind 2")
}

func TestEachEventOnceForSeveralFilters(t *testing.T) {
	r := start(t, Config{})
	alice := r.dial()
	ev := note(t, "one", 0, nostr.Tag{"t", "x"})
	alice.put(ev)
	alice.send(fmt.Sprintf(`["REQ","s",{"kinds":[1]},{"#t":["x"]},{"ids":[%q]}]`, ev.ID))
	alice.expect("EVENT s one")
	alice.expect("EOSE s")
	alice.publish(note(t, "two", 0, nostr.Tag{"t", "x"}))
	alice.expect("EVENT s two")
	alice.expect("OK true ")
}

func TestFilters(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	base := ago(1000)
	at := func(i int) nostr.Timestamp { return base + nostr.Timestamp(i) }
	alice, bob := publicKey(t, aliceSecret), publicKey(t, bobSecret)
	a1 := sign(t, aliceSecret, nostr.Event{Kind: 1, Content: "a1", CreatedAt: at(1), Tags: nostr.Tags{{"t", "x"}, {"p", bob}}})
	p.put(a1)
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 2, Content: "a2", CreatedAt: at(2), Tags: nostr.Tags{{"t", "x"}, {"r", "y"}}}))
	p.put(sign(t, bobSecret, nostr.Event{Kind: 1, Content: "b3", CreatedAt: at(3), Tags: nostr.Tags{{"t", "z"}, {"p", alice}}}))
	p.put(sign(t, bobSecret, nostr.Event{Kind: 7, Content: "b4", CreatedAt: at(4), Tags: nostr.Tags{{"T", "x"}, {"multi", "x"}}}))
	for filter, want := range map[string]string{
		`{}`:                            "b4 b3 a2 a1",
		`{"limit":2}`:                   "b4 b3",
		`{"limit":0}`:                   "",
		`{"kinds":[1]}`:                 "b3 a1",
		`{"kinds":[1,7]}`:               "b4 b3 a1",
		`{"kinds":[1,2],"limit":2}`:     "b3 a2",
		`{"kinds":[1,7],"limit":1}`:     "b4",
		`{"kinds":[]}`:                  "",
		`{"authors":["` + alice + `"]}`: "a2 a1",
		`{"authors":["` + alice + `","` + bob + `"],"kinds":[1]}`:           "b3 a1",
		`{"authors":["` + alice + `","` + bob + `"],"kinds":[1,7]}`:         "b4 b3 a1",
		`{"authors":["` + alice + `"],"kinds":[7]}`:                         "",
		`{"ids":["` + a1.ID + `"]}`:                                         "a1",
		`{"ids":["` + a1.ID + `"],"#t":["z"]}`:                              "",
		`{"ids":["` + a1.ID + `"],"#t":["x"]}`:                              "a1",
		`{"#t":["x"]}`:                                                      "a2 a1",
		`{"#T":["x"]}`:                                                      "b4",
		`{"#t":["x","z"],"limit":2}`:                                        "b3 a2",
		`{"#t":["x"],"#r":["y"]}`:                                           "a2",
		`{"#t":["x","z"],"#p":["` + bob + `"],"authors":["` + alice + `"]}`: "a1",
		`{"#p":["` + alice + `"],"kinds":[1]}`:                              "b3",
		fmt.Sprintf(`{"since":%d,"until":%d}`, at(2), at(3)):                "b3 a2",
		fmt.Sprintf(`{"#t":["x"],"since":%d}`, at(2)):                       "a2",
		fmt.Sprintf(`{"kinds":[1],"until":%d}`, at(2)):                      "a1",
	} {
		if got := p.stored(filter); got != want {
			t.Errorf("%s: got %q, want %q", filter, got, want)
		}
	}
}

// TestLiveAgreesWithStored checks that the index of live subscriptions and the
// query find the same.
func TestLiveAgreesWithStored(t *testing.T) {
	alice, bob := publicKey(t, aliceSecret), publicKey(t, bobSecret)
	events := []nostr.Event{
		sign(t, aliceSecret, nostr.Event{Kind: 1, Content: "a1", Tags: nostr.Tags{{"t", "x"}, {"p", bob}}}),
		sign(t, aliceSecret, nostr.Event{Kind: 2, Content: "a2", Tags: nostr.Tags{{"t", "x"}, {"r", "y"}}}),
		sign(t, bobSecret, nostr.Event{Kind: 1, Content: "b3", Tags: nostr.Tags{{"t", "z"}, {"t", "x"}}}),
	}
	for _, filter := range []string{
		`{}`, `{"kinds":[1]}`, `{"kinds":[]}`, `{"authors":["` + alice + `"]}`, `{"ids":["` + events[1].ID + `"]}`,
		`{"#t":["x"]}`, `{"#t":["z","x"],"kinds":[1]}`, `{"#t":["x"],"#r":["y"]}`, `{"#p":["` + bob + `"]}`, `{"ids":[]}`,
	} {
		t.Run(filter, func(t *testing.T) {
			req, err := nip01.ParseClient([]byte(`["REQ","live",`+filter+`]`), nip01.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			f := req.Filters[0]
			x := newIndex(1<<20, 1<<20)
			sub := &subscription{client: &client{host: &host{}}, filters: []nostr.Filter{f}}
			x.add(sub)
			for i := range events {
				found, _ := x.matching(&events[i], uint64(i+1))
				if got, want := len(found) == 1, f.Matches(&events[i]); got != want {
					t.Errorf("%s: live %v, want %v", events[i].Content, got, want)
				}
			}
			if x.remove(sub); len(x.keys) != 0 {
				t.Errorf("removed subscription left %d keys", len(x.keys))
			}
		})
	}
}

func TestReplaceable(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	profile := func(content string, age int) nostr.Event {
		return sign(t, aliceSecret, nostr.Event{Kind: 0, Content: content, CreatedAt: ago(age)})
	}
	p.put(profile("first", 20))
	p.put(profile("second", 10))
	p.publish(profile("stale", 15))
	p.expect("OK true duplicate: have a newer version")
	if got := p.stored(`{"kinds":[0]}`); got != "second" {
		t.Errorf("kind 0: %q", got)
	}

	offer := func(d, content string, at nostr.Timestamp) nostr.Event {
		return sign(t, aliceSecret, nostr.Event{Kind: 31990, Content: content, CreatedAt: at, Tags: nostr.Tags{{"d", d}}})
	}
	p.put(offer("x", "x1", ago(20)))
	p.put(offer("y", "y1", ago(25)))
	p.put(offer("x", "x2", ago(10)))
	if got := p.stored(`{"kinds":[31990]}`); got != "x2 y1" {
		t.Errorf("kind 31990: %q", got)
	}
	if got := p.stored(`{"kinds":[31990],"#d":["x"]}`); got != "x2" {
		t.Errorf("by d: %q", got)
	}

	// "In case of replaceable events with the same timestamp, the event with
	// the lowest id (first in lexical order) should be retained".
	at := ago(5)
	low, high := offer("z", "low", at), offer("z", "high", at)
	if low.ID > high.ID {
		low, high = high, low
	}
	p.put(high)
	p.put(low)
	p.publish(high)
	p.expect("OK true duplicate: have a newer version")
	if got := p.stored(`{"#d":["z"]}`); got != low.Content {
		t.Errorf("same time: %q, want %q", got, low.Content)
	}
}

func TestEphemeralIsNotStored(t *testing.T) {
	r := start(t, Config{})
	alice, bob := r.dial(), r.dial()
	bob.send(`["REQ","s",{"kinds":[20001]}]`)
	bob.expect("EOSE s")
	alice.put(sign(t, aliceSecret, nostr.Event{Kind: 20001, Content: "now"}))
	bob.expect("EVENT s now")
	if got := alice.stored(`{"kinds":[20001]}`); got != "" {
		t.Errorf("stored %q", got)
	}
}

func TestDeletion(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	ours, theirs := note(t, "ours", 10), sign(t, bobSecret, nostr.Event{Kind: 1, Content: "theirs"})
	p.put(ours)
	p.put(theirs)
	deletion := func(age int, tags ...nostr.Tag) nostr.Event {
		return sign(t, aliceSecret, nostr.Event{Kind: 5, Content: "gone", CreatedAt: ago(age), Tags: tags})
	}
	first := deletion(0, nostr.Tag{"e", ours.ID}, nostr.Tag{"e", theirs.ID}, nostr.Tag{"e", "nonsense"}, nostr.Tag{"e"})
	p.put(first)
	if got := p.stored(`{"kinds":[1]}`); got != "theirs" {
		t.Errorf("after deletion: %q", got)
	}
	if got := p.stored(`{"#e":["` + ours.ID + `"]}`); got != "gone" {
		t.Errorf("deletion requests must stay: %q", got)
	}
	p.publish(ours)
	p.expect("OK false blocked: its author deleted this event")

	p.put(deletion(1, nostr.Tag{"e", first.ID}))
	if got := p.stored(`{"ids":["` + first.ID + `"]}`); got != "gone" {
		t.Error("a deletion request was deleted")
	}

	early := note(t, "early", 5) // deleted before it came
	p.put(deletion(3, nostr.Tag{"e", early.ID}))
	p.publish(early)
	p.expect("OK false blocked: its author deleted this event")
}

func TestDeletionByAddress(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	offer := func(secret, d, content string, age int) nostr.Event {
		return sign(t, secret, nostr.Event{Kind: 31990, Content: content, CreatedAt: ago(age), Tags: nostr.Tags{{"d", d}}})
	}
	address := func(secret, d string) nostr.Tag {
		return nostr.Tag{"a", "31990:" + publicKey(t, secret) + ":" + d}
	}
	p.put(offer(aliceSecret, "x", "x1", 30))
	p.put(offer(aliceSecret, "y", "y1", 10))
	p.put(offer(bobSecret, "x", "bob's", 40))
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 5, CreatedAt: ago(20), Tags: nostr.Tags{
		address(aliceSecret, "x"), address(aliceSecret, "y"), address(bobSecret, "x"), {"a", "1:x"}, {"a", ""},
	}}))
	// "all versions of the replaceable event up to the created_at"
	if got := p.stored(`{"kinds":[31990]}`); got != "y1 bob's" {
		t.Errorf("after deletion: %q", got)
	}
	p.publish(offer(aliceSecret, "x", "x0", 25))
	p.expect("OK false blocked: its author deleted this event")
	p.put(offer(aliceSecret, "x", "x2", 15))
}

func TestExpiration(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	expires := func(content string, in int) nostr.Event {
		return note(t, content, 10, nostr.Tag{"expiration", fmt.Sprint(ago(-in))}, nostr.Tag{"t", "x"})
	}
	p.publish(expires("past", -1))
	p.expect("OK false invalid: event has expired")
	p.put(expires("later", 3600))
	expired := expires("expired in the store", -1)
	if _, err := r.srv.store.put([]*job{{event: &expired, raw: nip01.Marshal(&expired)}}); err != nil {
		t.Fatal(err)
	}
	for _, filter := range []string{`{"kinds":[1]}`, `{"#t":["x"]}`, `{}`} {
		if got := p.stored(filter); got != "later" {
			t.Errorf("%s: %q", filter, got)
		}
	}
	if got := p.stored(`{"ids":["` + expired.ID + `"]}`); got != "" {
		t.Errorf("by id: %q", got)
	}
	if _, err := r.srv.store.purge(t.Context(), nostr.Now().Time()); err != nil {
		t.Fatal(err)
	}
	var events, tags int
	count(t, r.srv, "SELECT count(*) FROM events", &events)
	count(t, r.srv, "SELECT count(*) FROM tags", &tags)
	if events != 1 || tags != 1 {
		t.Errorf("after purge: %d events, %d tags", events, tags)
	}
}

func TestStoreSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{Dir: dir})
	r.dial().put(note(t, "kept", 0))
	r.stop()
	if got := start(t, Config{Dir: dir}).dial().stored(`{"kinds":[1]}`); got != "kept" {
		t.Errorf("after restart: %q", got)
	}
}

func TestInformationDocument(t *testing.T) {
	r := start(t, Config{Name: "test", PubKey: publicKey(t, aliceSecret), Limits: Limits{MaxTags: 17}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/nostr+json")
	resp, body := do(t, req)
	if resp.Header.Get("Access-Control-Allow-Origin") != "*" || resp.Header.Get("Content-Type") != "application/nostr+json" {
		t.Errorf("headers %v", resp.Header)
	}
	var got document
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	l := got.Limitation
	if got.Name != "test" || l.MaxMessageLength != 128<<10 || l.MaxEventTags != 17 || l.MaxFilters != 200 || l.MaxLimit != 500 || l.MaxSubscriptions != 200 || l.MaxSubIDLength != 64 {
		t.Errorf("document %+v", got)
	}
	if want := []int{1, 4, 9, 11, 13, 40, 42, 45, 59, 70}; !slices.Equal(got.SupportedNIPs, want) {
		t.Errorf("NIPs %v, want %v", got.SupportedNIPs, want)
	}
	p := r.dial()
	p.put(note(t, strings.Repeat("x", l.MaxContentLength), 0))
	p.publish(note(t, strings.Repeat("x", l.MaxContentLength+1), 0))
	p.expect("OK false invalid: event is larger than 65536 bytes")
	req.Header.Del("Accept")
	if _, body := do(t, req); !strings.Contains(body, "Nostr relay") {
		t.Errorf("plain page %q", body)
	}
}

// do makes a request on a connection of its own.
func do(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}
