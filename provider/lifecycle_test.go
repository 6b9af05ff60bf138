package provider_test

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

var lifeKinds = lifecycle.Kinds{AgentProfile: 39200, AgentState: 39201, TickRequest: 39210, TickResult: 39211, TrajectorySession: 39230, TrajectoryEvent: 39231}

var allLifeKinds = []int{39200, 39201, 39210, 39211, 39230, 39231}

// parsed reads a lifecycle event of the seller's.
func parsed(t *testing.T, w *markettest.World, ev nostr.Event, content string, doc lifecycle.Document) {
	t.Helper()
	tags := make([][]string, len(ev.Tags))
	for i, tag := range ev.Tags {
		tags[i] = tag
	}
	if err := lifecycle.Parse(tags, content, doc); err != nil {
		t.Errorf("kind %d: %v: %s", ev.Kind, err, content)
	}
}

// TestLifecycle: none of it is published unless it has a kind; then profile,
// state and both ends of each run are, and the trajectory of what is done.
func TestLifecycle(t *testing.T) {
	requirements.Covers(t, "OA-1.4")
	w := markettest.New(t)
	w.Delivery = receipts.DeliveryPlain
	c := w.NewCustomer(t, nil)
	stop := w.Serve(t, nil)
	p := w.Place(t, c, receipts.ModeFree, markettest.SandboxInput(""))
	w.Follow(t, c, p.RequestID, nil)
	w.Await(t, p.RequestID, provider.StateSucceeded)
	w.Find(t, c.Market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	stop()
	if got, err := c.Market.Query(w.Ctx, nostr.Filter{Kinds: allLifeKinds}); err != nil || len(got) > 0 {
		t.Fatalf("off by default: %v, %v", got, err)
	}

	w.Serve(t, func(cfg *provider.Config) { cfg.Lifecycle.Kinds = lifeKinds })
	one := func(kind int) nostr.Event { return w.Find(t, c.Market, nostr.Filter{Kinds: []int{kind}}) }
	var profile lifecycle.AgentProfile
	ev := one(39200)
	parsed(t, w, ev, ev.Content, &profile)
	var state lifecycle.AgentState
	ev = one(39201)
	parsed(t, w, ev, ev.Content, &state)
	if len(profile.Capabilities) != 1 || state.Status != "available" || state.Slots != 2 || state.Ticks != 1 {
		t.Errorf("%+v, %+v", profile, state)
	}
	p = w.Place(t, c, receipts.ModePrepay, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	w.Sold(t, c, f, receipts.ModePrepay)
	began, ended := one(39210), one(39211)
	var request lifecycle.TickRequest
	parsed(t, w, began, began.Content, &request)
	if request.Job != p.RequestID || request.Run != 1 {
		t.Errorf("%+v", request)
	}
	var result lifecycle.TickResult
	parsed(t, w, ended, ended.Content, &result)
	if result.Request != began.ID || result.Status != "success" {
		t.Errorf("%+v", result)
	}
	var session lifecycle.TrajectorySession
	ev = one(39230)
	parsed(t, w, ev, ev.Content, &session)
	job := w.Await(t, p.RequestID, provider.StateSucceeded)
	if session.TrajectoryHash != job.Result.Trajectory || session.Visibility != "public" {
		t.Errorf("%+v", session)
	}
	steps := map[string]bool{}
	w.Hear(t, c.Market, nostr.Filter{Kinds: []int{39231}}, func(ev nostr.Event) bool {
		var step lifecycle.TrajectoryEvent
		parsed(t, w, ev, ev.Content, &step)
		steps[step.Step] = true
		if step.Step == "ToolCall" && strings.Contains(string(step.Line), `"params":`) {
			t.Errorf("public, with what was asked: %s", step.Line)
		}
		return len(steps) == int(session.Events) || steps["SessionEnd"] && steps["ToolCall"] && steps["SessionStart"]
	})
}

// TestTrajectoryForTheBuyer: encrypted, only the buyer reads it, and in full.
func TestTrajectoryForTheBuyer(t *testing.T) {
	requirements.Covers(t, "OA-1.4")
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Cipher, cfg.Lifecycle = w.Seller.Key, provider.Lifecycle{Kinds: lifeKinds, Encrypt: true}
	})
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), receipts.ModeHold)
	w.Hear(t, c.Market, nostr.Filter{Kinds: []int{39231}}, func(ev nostr.Event) bool {
		text, err := c.Key.NIP44Decrypt(w.Ctx, w.Seller.Key.PublicKey(), ev.Content)
		markettest.Check(t, err)
		if ev.Tags.Find("step") != nil || strings.Contains(ev.Content, "ToolCall") {
			t.Errorf("in the clear: %v", ev.Tags)
		}
		return strings.Contains(text, `"params":`)
	})
}
