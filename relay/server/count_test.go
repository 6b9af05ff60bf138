package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// count asks for the number of events that any of the filters matches.
func (p *peer) count(filters ...string) int {
	p.t.Helper()
	p.send(`["COUNT","n",` + strings.Join(filters, ",") + `]`)
	doc := p.text()
	var (
		label, id string
		got       struct{ Count int }
	)
	if err := json.Unmarshal([]byte(doc), &[]any{&label, &id, &got}); err != nil || label != "COUNT" || id != "n" {
		p.t.Fatalf("got %s", doc)
	}
	return got.Count
}

func TestCount(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxLimit: 10, MaxSubscriptions: 1}})
	p := r.dial()
	for i := range 150 {
		tags := []nostr.Tag{{"t", "x"}, {"t", fmt.Sprint(i % 2)}}
		if i%10 == 0 {
			tags = append(tags, nostr.Tag{"r", "ten"})
		}
		p.put(note(t, fmt.Sprint(i), i, tags...))
	}
	p.put(note(t, "expiring", 0, nostr.Tag{"expiration", fmt.Sprint(nostr.Now() + 1000)}))
	p.put(sign(t, bobSecret, nostr.Event{Kind: 7}))
	for filters, want := range map[string]int{
		`{}`:                           152,
		`{"limit":3}`:                  152, // a limit is for events
		`{"kinds":[1]}`:                151,
		`{"kinds":[1,7]}`:              152,
		`{"kinds":[1,1,1]}`:            151,
		`{"kinds":[]}`:                 0,
		`{"#t":["x","0","1"]}`:         150, // each is found twice
		`{"#t":["x"],"#r":["ten"]}`:    15,
		`{"#t":["1"],"#r":["ten"]}`:    0,
		`{"kinds":[1]},{"#t":["0"]}`:   151,
		`{"kinds":[7]},{"#r":["ten"]}`: 16,
		`{"authors":["` + publicKey(t, bobSecret) + `"]}`: 1,
	} {
		if got := p.count(filters); got != want {
			t.Errorf("%s: %d, want %d", filters, got, want)
		}
	}
	p.send(`["COUNT","n",{"search":"x"}]`)
	p.expect("CLOSED n unsupported: filter contains unknown elements")
	p.send(`["COUNT","n"]`)
	p.expect("CLOSED n invalid: not a message of the protocol")
	p.put(note(t, "a count opens no subscription", 0))
	p.send(`["REQ","a",{"kinds":[9]}]`)
	p.expect("EOSE a")
}
