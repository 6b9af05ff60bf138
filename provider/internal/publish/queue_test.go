package publish

import (
	"context"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
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

// NIP44Encrypt implements Cipher.
func (openCipher) NIP44Encrypt(_ context.Context, _, text string) (string, error) { return text, nil }

// TestFeedbackIsKnownByWhatIsInside: the store cannot read what is encrypted, and keeps a
// quote for ever.
func TestFeedbackIsKnownByWhatIsInside(t *testing.T) {
	p := New(Config{Market: placed{}, SignLater: true, Cipher: openCipher{}})
	for _, c := range []struct {
		status, content string
		want            domain.Domain
	}{
		{"processing", "", domain.Feedback},
		{"payment-required", `{"quote":1}`, domain.Quote},
		{receipts.StatusReveal, "{}", domain.Reveal},
	} {
		for scheme, sent := range map[Scheme]domain.Domain{"": c.want, "nip44": domain.Encrypted} {
			out, err := p.Feedback(t.Context(), Addressee{Request: "r", Buyer: "b", Scheme: scheme}, c.status, "", c.content)
			if err != nil || out.Domain != string(c.want) {
				t.Errorf("%s, scheme %q: known as %q, want %q: %v", c.status, scheme, out.Domain, c.want, err)
			}
			if ev, err := out.Parsed(); err != nil || domain.Demand(sent, ev.Tags) != nil {
				t.Errorf("%s, scheme %q: sent with %v, %v", c.status, scheme, ev.Tags, err)
			}
		}
	}
}
