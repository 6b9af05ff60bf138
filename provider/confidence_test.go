package provider_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestSessionSaysHowSureItIs: the record of a session has the confidence that the
// agent stated, and not the relevance of what it ranked.
func TestSessionSaysHowSureItIs(t *testing.T) {
	requirements.Covers(t, "K-21")
	w := markettest.New(t)
	by := schemas.Provenance{ModelID: "m", ProviderPubkey: w.Runner.Key}
	results := map[schemas.ID]any{
		schemas.CodeChunkAnalysis: schemas.CodeChunkResult{
			Summary: "nothing", Symbols: []schemas.CodeSymbol{}, SuspectedFaults: []schemas.SuspectedFault{},
			RecommendedNextProbes: []schemas.NextProbe{}, Confidence: 0.295, Provenance: by,
		},
		schemas.TextGeneration: schemas.TextResult{Text: markettest.Answer, Provenance: by},
	}
	w.Runner.Do = func(_ context.Context, run provider.Run) (provider.Outcome, error) {
		doc, err := json.Marshal(results[schemas.ID(run.SchemaID)])
		return provider.Outcome{Output: doc}, err
	}
	w.Serve(t, func(c *provider.Config) {
		chunks := markettest.TextOffer()
		chunks.SchemaID = string(schemas.CodeChunkAnalysis)
		c.Offers = []provider.Offer{markettest.TextOffer(), chunks}
	})
	c := w.NewCustomer(t, nil)
	for id, want := range map[schemas.ID]string{schemas.CodeChunkAnalysis: `"confidence":0.29,`, schemas.TextGeneration: `"confidence":0,`} {
		input := chunk
		if id == schemas.TextGeneration {
			input = []byte(`{"prompt":"Which fruit is yellow?"}`)
		}
		p, err := c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(id), Mode: receipts.ModeHold, MaxMsats: markettest.MaxMsats, Input: input,
		})
		markettest.Check(t, err)
		if p, err = w.Follow(t, c, p.RequestID, nil).Wait(); err != nil || p.State != buyer.StateDone {
			t.Fatalf("%s: %s (%s), %v", id, p.State, p.Reason, err)
		}
		b, err := c.Client.Bundle(w.Ctx, p.RequestID)
		markettest.Check(t, err)
		if !strings.Contains(string(b.Replay), want) {
			t.Errorf("%s: %s lacks %s", id, b.Replay, want)
		}
	}
}

var chunk = []byte(`{"task":"review","chunk":{"path":"a.go","start_line":1,"end_line":1,"content":"package a"}}`)
