package buyer

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// TestOtherDocumentsAreNoPong: a provider is there if it says so, and not because an
// event of another kind of document has the same tags.
func TestOtherDocumentsAreNoPong(t *testing.T) {
	ping := strings.Repeat("a", 64)
	for _, d := range append(domain.All(), "") {
		ev := nostr.Event{Kind: kinds.Feedback, Tags: nostr.Tags{{"status", "pong"}, {"e", ping}}}
		if d != "" {
			ev.Tags = append(ev.Tags, d.Tag())
		}
		if got, want := isPong(ev, ping), d == domain.Feedback || d == ""; got != want {
			t.Errorf("%q read as a pong: %v", d, got)
		}
	}
	for name, tags := range map[string]nostr.Tags{
		"of another ping": {{"status", "pong"}, {"e", strings.Repeat("b", 64)}}, "another word": {{"status", "processing"}, {"e", ping}}, "no word": {{"e", ping}},
	} {
		if isPong(nostr.Event{Kind: kinds.Feedback, Tags: tags}, ping) {
			t.Errorf("%s: it is one", name)
		}
	}
}
