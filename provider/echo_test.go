package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/provider"
)

// TestResultRepeatsTheInputs: as NIP-90 has it, where there is room: first the
// inputs are left out, then the request, and never the result.
func TestResultRepeatsTheInputs(t *testing.T) {
	w := newWorld(t)
	w.writes(t)
	c := w.customer(t, nil)
	for _, l := range []struct {
		bytes           int
		inputs, request int // tags of the result
	}{{10, 2, 1}, {29 << 10, 0, 1}, {58 << 10, 0, 0}} {
		ev := raw(t, c.key, 5050, "", nostr.Tag{"i", "Which fruit?", "text"}, nostr.Tag{"i", strings.Repeat("x", l.bytes), "prompt"},
			nostr.Tag{"p", w.seller.key.PublicKey()}, nostr.Tag{"param", "payment_mode", "free"})
		check(t, c.market.Send(w.ctx, ev))
		job := w.await(t, ev.ID, provider.StateSucceeded)
		var result nostr.Event
		check(t, json.Unmarshal(job.Result.Event, &result))
		seen := map[string]int{}
		for _, tag := range result.Tags {
			seen[tag[0]]++
		}
		if seen["i"] != l.inputs || seen["request"] != l.request || result.Content != answer {
			t.Errorf("%d bytes: %v, %q", l.bytes, seen, result.Content)
		}
	}
}
