package publish

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// placed is a market of one relay.
type placed struct{ Market }

func (placed) Relays() []string { return []string{"wss://relay.example"} }

// TestQueuedEvent: an event is queued in the few bytes that it takes at a relay,
// and need not be read again by the process that made it.
func TestQueuedEvent(t *testing.T) {
	p := New(Config{Market: placed{}})
	ev := nostr.Event{ID: "id", Kind: 6050, Tags: nostr.Tags{{"e", "<&>"}}, Content: strings.Repeat("<p>", 1000), Sig: "signed"}
	out, err := p.Queue(ev, "job")
	if err != nil || len(out.Event) > len(ev.Content)+200 {
		t.Fatalf("%d bytes for a content of %d, %v", len(out.Event), len(ev.Content), err)
	}
	made, err := out.Parsed()
	if err != nil {
		t.Fatal(err)
	}
	out.Made = nil // as another process finds it
	read, err := out.Parsed()
	if err != nil || read.String() != made.String() || made.String() != ev.String() {
		t.Errorf("made %s, read %s, %v", made, read, err)
	}
}
