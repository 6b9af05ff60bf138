package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// saidAfter signs an event that is said after this life of the provider began.
func saidAfter(t *testing.T, w *markettest.World, ev nostr.Event) nostr.Event {
	t.Helper()
	ev.CreatedAt = nostr.Timestamp(time.Now().Add(5 * time.Second).Unix())
	markettest.Check(t, w.Seller.Key.Sign(w.Ctx, &ev))
	return ev
}

// TestAnotherNodeWithOurKey: whatever shows that another store sells with the key
// of this one stops the taking of jobs; its own words do not.
func TestAnotherNodeWithOurKey(t *testing.T) {
	for name, said := range map[string]struct {
		event func(t *testing.T, w *markettest.World, q receipts.Quote, r receipts.Receipt) nostr.Event
		why   string
	}{
		"a beat": {func(t *testing.T, w *markettest.World, _ receipts.Quote, _ receipts.Receipt) nostr.Event {
			return saidAfter(t, w, nostr.Event{Kind: 11998, Tags: nostr.Tags{{"d", "lightwork"}, domain.Beat.Tag()}})
		}, "that it is alive"},
		"a quote of its own": {func(t *testing.T, w *markettest.World, q receipts.Quote, _ receipts.Receipt) nostr.Event {
			q.Nonce = strings.Repeat("ab", 16)
			content, err := q.Canonical()
			markettest.Check(t, err)
			return saidAfter(t, w, nostr.Event{Kind: 7000, Tags: nostr.Tags{{"status", "payment-required"}, {"e", q.RequestID}, domain.Quote.Tag()}, Content: string(content)})
		}, "a quote for request"},
		"a receipt of its own": {func(t *testing.T, w *markettest.World, _ receipts.Quote, r receipts.Receipt) nostr.Event {
			before := hashing.Bytes([]byte("the sixth"))
			r.Sequence, r.PreviousReceiptHash = 7, &before
			r.RequestEventID = strings.Repeat("ab", 32)
			content, err := r.Canonical()
			markettest.Check(t, err)
			return saidAfter(t, w, nostr.Event{Kind: 7002, Tags: nostr.Tags{{"e", r.RequestEventID}, domain.Receipt.Tag()}, Content: string(content)})
		}, "receipt 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			paused := make(chan string, 4)
			w.Serve(t, func(cfg *provider.Config) {
				admission := provider.AdmissionOpen
				answer := make(chan provider.Admission, 1)
				answer <- admission
				cfg.Admission = func() provider.Admission { a := <-answer; answer <- a; return a }
				cfg.Pause = func(why string) error { <-answer; answer <- provider.AdmissionPaused; paused <- why; return nil }
			})
			c := w.NewCustomer(t, nil)
			p := w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
			select {
			case why := <-paused:
				t.Fatalf("its own words paused it: %s", why)
			default:
			}

			quote, err := receipts.ParseQuote(p.Quote)
			markettest.Check(t, err)
			var signed nostr.Event
			markettest.Check(t, signed.UnmarshalJSON(p.ReceiptEvent))
			receipt, err := receipts.ParseReceipt([]byte(signed.Content))
			markettest.Check(t, err)
			m := w.Connect(t, w.Seller.Key)
			// A buyer's words in a partial are no quote, though our key signed them.
			foreign := quote
			foreign.RequestID = strings.Repeat("cd", 32)
			words, err := foreign.Canonical()
			markettest.Check(t, err)
			markettest.Check(t, m.Send(w.Ctx, saidAfter(t, w, nostr.Event{Kind: 7000, Tags: nostr.Tags{{"status", "partial"}, {"e", quote.RequestID}, domain.Feedback.Tag()}, Content: string(words)})))
			markettest.Check(t, m.Send(w.Ctx, said.event(t, w, quote, receipt)))
			if why := <-paused; !strings.Contains(why, said.why) {
				t.Errorf("it paused because %q", why)
			}
			refused := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(`,"env":{"N":"2"}`)).RequestID, nil)
			refused.Failed(t, provider.CodePaused)
		})
	}
}
