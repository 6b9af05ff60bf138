package provider_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestWithdrawnOffer: while what does the jobs of a type is down they are neither
// announced nor quoted, buyers are not told why, and no other offer is touched.
func TestWithdrawnOffer(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	var down atomic.Bool
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Offers = append(cfg.Offers, provider.Offer{SchemaID: string(schemas.TextGeneration), Modes: markettest.AllModes, InputMsats: 4000, OutputMsats: 9000, MaxOutputTokens: 500})
		cfg.Withdrawn = func(schemaID string) string {
			if down.Load() && schemaID == string(schemas.SandboxRun) {
				return "agent com.example.secret fell over"
			}
			return ""
		}
	})
	sells := func(id schemas.ID) func(provider.Announcement) bool {
		return func(a provider.Announcement) bool { return slices.Contains(a.Capabilities.SupportedJobs, string(id)) }
	}
	awaitAnnounced(t, w, c, sells(schemas.SandboxRun))

	down.Store(true)
	a, _ := awaitAnnounced(t, w, c, func(a provider.Announcement) bool { return !sells(schemas.SandboxRun)(a) })
	if !sells(schemas.TextGeneration)(a) || a.Lightwork.Modes[string(schemas.SandboxRun)] != nil || a.Lightwork.Paused {
		t.Errorf("announced %+v", a)
	}
	p := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil).Failed(t, provider.CodeAgentUnavailable)
	if strings.Contains(p.Reason, "secret") || p.Attempt != nil {
		t.Errorf("the buyer was told %q, attempt %+v", p.Reason, p.Attempt)
	}

	down.Store(false)
	awaitAnnounced(t, w, c, sells(schemas.SandboxRun))
	w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
}

// TestWhatAToolTakes: what the tool of an offer would refuse is refused before
// anybody pays for it, with the tool's reason.
func TestWhatAToolTakes(t *testing.T) {
	s := openShop(t, func(cfg *provider.Config) {
		cfg.Takes = func(schemaID string, input []byte) error {
			if schemaID != string(schemas.SandboxRun) || !strings.Contains(string(input), `"commands"`) {
				return errors.New("asked about something else than the request")
			}
			if strings.Contains(string(input), `"cmd":"false"`) {
				return errors.New("/commands/0/cmd: the tool runs true alone")
			}
			return nil
		}
	})
	s.wantQuote(s.request(nil))
	refused := s.request(replaceTag("i", nostr.Tag{"i", strings.Replace(typed, "true", "false", 1), "text"}))
	status := s.answer(refused).Tags.Find("status")
	if got := strings.Join(status, " "); got != "status error invalid_input: /commands/0/cmd: the tool runs true alone" {
		t.Errorf("answered %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.invoices != 1 {
		t.Errorf("%d invoices were made, want that of the first request alone", s.invoices)
	}
}
