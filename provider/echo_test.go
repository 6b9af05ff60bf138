package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
)

// TestResultRepeatsTheInputs: as NIP-90 has it, where there is room: first the
// inputs are left out, then the request, and never the result.
func TestResultRepeatsTheInputs(t *testing.T) {
	w := markettest.New(t)
	w.Writes(t)
	c := w.NewCustomer(t, nil)
	for _, l := range []struct {
		bytes           int
		inputs, request int // tags of the result
	}{{10, 2, 1}, {29 << 10, 0, 1}, {58 << 10, 0, 0}} {
		ev := markettest.SignedEvent(t, c.Key, 5050, "", nostr.Tag{"i", "Which fruit?", "text"}, nostr.Tag{"i", strings.Repeat("x", l.bytes), "prompt"},
			nostr.Tag{"p", w.Seller.Key.PublicKey()}, nostr.Tag{"param", "payment_mode", "free"})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		job := w.Await(t, ev.ID, provider.StateSucceeded)
		var result nostr.Event
		markettest.Check(t, json.Unmarshal(job.Result.Event, &result))
		seen := map[string]int{}
		for _, tag := range result.Tags {
			seen[tag[0]]++
		}
		if seen["i"] != l.inputs || seen["request"] != l.request || result.Content != markettest.Answer {
			t.Errorf("%d bytes: %v, %q", l.bytes, seen, result.Content)
		}
	}
}
