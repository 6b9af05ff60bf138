package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// announced is the provider's latest announcement.
func awaitAnnounced(t *testing.T, w *markettest.World, c *markettest.Customer, ready func(provider.Announcement) bool) (a provider.Announcement, ev nostr.Event) {
	t.Helper()
	w.Hear(t, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: []string{w.Seller.Key.PublicKey()}}, func(heard nostr.Event) bool {
		a = provider.Announcement{}
		markettest.Check(t, json.Unmarshal([]byte(heard.Content), &a))
		ev = heard
		return ready(a)
	})
	return a, ev
}

// TestAnnouncementIsTrue: every number of it is held against what the provider
// does: stability against its jobs, capacity against what it refuses, pricing
// against its quotes.
func TestAnnouncementIsTrue(t *testing.T) {
	requirements.Covers(t, "OA-1.2", "OA-7.1", "OA-7.2")
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	var fails atomic.Bool
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		if fails.Load() {
			return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed}}
		}
		return w.Words()
	}
	offers := []provider.Offer{
		{SchemaID: string(schemas.SandboxRun), Modes: markettest.AllModes, BaseMsats: 100, PerMinuteMsats: markettest.RateMsats},
		{SchemaID: string(schemas.TextGeneration), Modes: markettest.AllModes, InputMsats: 4000, OutputMsats: 9000, MaxOutputTokens: 500},
	}
	kept := receipts.Retention{DisputeMs: 1000, ResultsMs: 5000, ArtifactsMs: 1000, TrajectoriesMs: 2000, BlobsMs: 1000}
	change := func(cfg *provider.Config) {
		cfg.Offers, cfg.Profile.Models, cfg.Retention = offers, []string{"m"}, &kept
		cfg.Hardware = provider.Hardware{MemoryGB: 7, GPUType: "AMD", VRAMGB: 16}
		cfg.Limits = provider.Limits{Concurrent: 3, ContextTokens: 1000, MemoryMB: 2048, CPUs: 2}
	}
	stop := w.Serve(t, change)
	a, ev := awaitAnnounced(t, w, c, func(provider.Announcement) bool { return true })
	if ev.Tags.FindWithValue("t", string(schemas.SandboxRun)) == nil || ev.Tags.FindWithValue("k", "5050") == nil {
		t.Errorf("tags %v", ev.Tags)
	}
	var fields map[string]map[string]any
	_ = json.Unmarshal([]byte(ev.Content), &fields) // those that are no objects are passed over
	for name, want := range map[string][]string{
		"capabilities": {"hardware", "models", "supported_jobs"},
		"capacity":     {"max_concurrent_jobs", "max_context_tokens", "max_cpus", "max_memory_mb"},
		"pricing":      {"input_tokens_per_1k_msats", "output_tokens_per_1k_msats", "sandbox_per_minute_msats"},
		"stability":    {"avg_latency_ms", "jobs_completed", "success_rate"},
	} {
		if got := sortedNames(fields[name]); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	for _, member := range []string{`"supply_class":"SingleNode"`, `"memory_gb":7`, `"gpu_type":"AMD"`, `"vram_gb":16`} {
		if !strings.Contains(ev.Content, member) {
			t.Errorf("no %s in %s", member, ev.Content)
		}
	}
	if a.SupplyClass != "SingleNode" || a.Capabilities.Hardware != (provider.Hardware{MemoryGB: 7, GPUType: "AMD", VRAMGB: 16}) || !slices.Equal(a.Capabilities.Models, []string{"m"}) {
		t.Errorf("%s, %+v", a.SupplyClass, a.Capabilities)
	}
	if want := (provider.Pricing{InputTokens: 4000, OutputTokens: 9000, SandboxMin: markettest.RateMsats}); a.Pricing != want {
		t.Errorf("pricing %+v", a.Pricing)
	}
	if want := (provider.Capacity{MaxConcurrentJobs: 3, MaxContextTokens: 1000, MaxMemoryMB: 2048, MaxCPUs: 2}); a.Capacity != want {
		t.Errorf("capacity %+v", a.Capacity)
	}
	if a.Lightwork.Retention == nil || *a.Lightwork.Retention != kept {
		t.Errorf("retention %+v", a.Lightwork.Retention)
	}
	if a.Stability != (provider.Stability{}) {
		t.Errorf("a new node's record: %+v", a.Stability)
	}

	// Pricing: what is quoted is what the announced table comes to.
	for schema, input := range map[schemas.ID]string{schemas.SandboxRun: string(markettest.SandboxInput("")), schemas.TextGeneration: `{"prompt":"Which fruit?","max_tokens":70}`} {
		s, _ := schemas.Lookup(string(schema))
		req, err := s.ParseRequest([]byte(input))
		markettest.Check(t, err)
		want, ok := a.Lightwork.Prices[string(schema)].For(req)
		ev := typedRequest(t, w, c, string(schema), input, "prepay")
		if job := w.Await(t, ev.ID, provider.StateQuoted); !ok || job.PriceMsats != want {
			t.Errorf("%s: quoted %d, announced %d", schema, job.PriceMsats, want)
		} else if q, err := receipts.ParseQuote(job.Quote); err != nil || q.Retention == nil || *q.Retention != kept {
			t.Errorf("%s: the quote promises %+v, %v", schema, q.Retention, err)
		}
	}
	// Capacity: one token more than announced is refused.
	for _, over := range []int{0, 1} {
		s, _ := schemas.Lookup(string(schemas.TextGeneration))
		empty, err := s.ParseRequest([]byte(`{"prompt":"x"}`))
		markettest.Check(t, err)
		prompt := strings.Repeat("x", 4*a.Capacity.MaxContextTokens-len(empty.Canonical)+1+over)
		ev := typedRequest(t, w, c, string(schemas.TextGeneration), fmt.Sprintf(`{"prompt":%q}`, prompt), "free")
		want := []provider.State{provider.StateSucceeded, provider.StateRefused}[over]
		if job := w.Await(t, ev.ID, want); over == 1 && job.Reason.Code != provider.CodeOverResources {
			t.Errorf("over by one: %s", job.Reason)
		}
	}
	// Stability: one job more that succeeds, and one that fails.
	fails.Store(true)
	ev = typedRequest(t, w, c, string(schemas.TextGeneration), `{"prompt":"Which fruit?"}`, "free")
	w.Await(t, ev.ID, provider.StateFailed)
	stop()
	w.Serve(t, func(cfg *provider.Config) {
		change(cfg)
		cfg.Profile.D = "again" // within the same second one address cannot be announced twice
	})
	a, _ = awaitAnnounced(t, w, c, func(a provider.Announcement) bool { return a.Stability.JobsCompleted > 0 })
	if a.Stability.JobsCompleted != 1 || a.Stability.SuccessRate != 0.5 {
		t.Errorf("after one good and one bad job: %+v", a.Stability)
	}
}

// TestCapacityIsKept: of one job more than was announced, one waits.
func TestCapacityIsKept(t *testing.T) {
	requirements.Covers(t, "OA-7.2")
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	var running atomic.Int32
	began, finish := make(chan struct{}, 4), make(chan struct{})
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		running.Add(1)
		defer running.Add(-1)
		began <- struct{}{}
		select {
		case <-finish:
			return w.Words()
		case <-ctx.Done():
			return provider.Outcome{}, ctx.Err()
		}
	}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Offers = []provider.Offer{markettest.TextOffer()}
		cfg.Limits = provider.Limits{Concurrent: 3, QueuePerBuyer: 8}
		cfg.Access.Allow = []string{c.Key.PublicKey()} // for strangers there are less
	})
	a, _ := awaitAnnounced(t, w, c, func(provider.Announcement) bool { return true })
	var ids []string
	for i := range a.Capacity.MaxConcurrentJobs + 1 {
		ev := typedRequest(t, w, c, string(schemas.TextGeneration), fmt.Sprintf(`{"prompt":"%d"}`, i), "free")
		w.Await(t, ev.ID, provider.StateQuoted, provider.StateRunning)
		ids = append(ids, ev.ID)
	}
	for range a.Capacity.MaxConcurrentJobs {
		<-began
	}
	// By the time that a later request is answered, the last job would have begun.
	bad := typedRequest(t, w, c, string(schemas.TextGeneration), `{"prompt":7}`, "free")
	refused(t, w, bad.ID)
	if n := running.Load(); a.Capacity.MaxConcurrentJobs != 3 || n != 3 {
		t.Errorf("%d jobs run at once, %d were announced", n, a.Capacity.MaxConcurrentJobs)
	}
	close(finish)
	for _, id := range ids {
		w.Await(t, id, provider.StateSucceeded)
	}
}

func sortedNames(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// typedRequest sends a request for a job type, made by hand.
func typedRequest(t *testing.T, w *markettest.World, c *markettest.Customer, schema, input, mode string) nostr.Event {
	t.Helper()
	ev := markettest.SignedEvent(t, c.Key, 5050, "", nostr.Tag{"param", "schema", schema}, nostr.Tag{"i", input, "text"},
		nostr.Tag{"p", w.Seller.Key.PublicKey()}, nostr.Tag{"param", "payment_mode", mode})
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	return ev
}

// TestKindsAreATable: the same document is the same job under any kind of
// request that the table has; schema and job_hash know of none.
func TestKindsAreATable(t *testing.T) {
	requirements.Covers(t, "OA-1.3")
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Kinds = provider.Kinds{Request: 5999, Also: []int{5102}, Receipt: 7912}
	})
	c := w.NewCustomer(t, nil)
	tags := nostr.Tags{{"param", "schema", "oa.sandbox_run.v1"}, {"i", string(markettest.SandboxInput("")), "text"}, {"p", w.Seller.Key.PublicKey()}, {"param", "payment_mode", "free"}}
	hashes := map[string]bool{}
	for _, kind := range []int{5999, 5102} {
		ev := markettest.SignedEvent(t, c.Key, kind, "", tags...)
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		job := w.Await(t, ev.ID, provider.StateSucceeded)
		hashes[job.JobHash.String()+job.SchemaID] = true
		w.Find(t, c.Market, nostr.Filter{Kinds: []int{kind + 1000}, Tags: nostr.TagMap{"e": {ev.ID}}})
	}
	if len(hashes) != 1 {
		t.Errorf("two kinds, and jobs %v", hashes)
	}
	usual := markettest.SignedEvent(t, c.Key, 5050, "", tags...)
	markettest.Check(t, c.Market.Send(w.Ctx, usual))
	last := markettest.SignedEvent(t, c.Key, 5102, "", append(tags, nostr.Tag{"t", "last"})...)
	markettest.Check(t, c.Market.Send(w.Ctx, last))
	w.Await(t, last.ID, provider.StateSucceeded)
	if _, err := w.Store.Job(w.Ctx, usual.ID); err == nil {
		t.Error("kind 5050 is not in the table, and was taken")
	}
}
