package provider_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// ranks is an agent whose taste is the order of the ids.
func ranks(r *runner, ids ...string) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(context.Context, provider.Run) (provider.Outcome, error) {
		res := schemas.RerankResult{Provenance: schemas.Provenance{ModelID: "taste of " + r.key[:8], ProviderPubkey: r.key}}
		for i, id := range ids {
			res.TopK = append(res.TopK, schemas.Ranked{Rank: int64(i + 1), ID: id, Score: float64(len(r.key)) / float64(i+2), Why: "by " + r.key[:8]})
		}
		doc, err := json.Marshal(res)
		return provider.Outcome{Output: doc}, err
	}
}

// TestSubjectiveJobIsPaidForConsensus: three models rank the same candidates,
// with scores and words of their own; the two that come to the same order are
// paid, the third is not.
func TestSubjectiveJobIsPaidForConsensus(t *testing.T) {
	requirements.Covers(t, "OA-3.7")
	t.Parallel()
	w := newWorld(t)
	var rivals []*rival
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b"}} {
		r := w.rival(t, "ranker-"+string(rune('0'+i)))
		r.runner.do = ranks(r.runner, order...)
		w.openWith(t, r, nil, schemas.RetrievalRerank)
		rivals = append(rivals, r)
	}
	c := w.customer(t, unhurried)
	seats := seatsOf(rivals...)
	for i := range seats {
		seats[i].BaseMsats = map[string]int64{string(schemas.RetrievalRerank): 0}
	}
	p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.RetrievalRerank), Seats: seats, Rule: buyer.RuleMajority, MaxMsats: 3 * (rateMsats + 10), CommitTimeout: slow,
		Input: []byte(`{"user_task":"find it","candidates":[{"id":"a","content":"x"},{"id":"b","content":"y"}],"k":2}`),
	})
	check(t, err)
	p, err = c.client.FollowPanel(w.ctx, p.ID, nil)
	check(t, err)
	if p.Decision.Outcome != buyer.OutcomeAgreed || p.Decision.Reason != "2 of 3 agree" {
		t.Errorf("decision %+v", p.Decision)
	}
	for i, want := range []int64{rateMsats, 0, rateMsats} {
		if got := w.earned(t, rivals[i]); got != want {
			t.Errorf("ranker %d earned %d msats, want %d", i, got, want)
		}
		if want > 0 {
			w.proved(t, c, p.Seats[i])
		}
	}
	result, err := c.client.PanelResult(w.ctx, p)
	check(t, err)
	if !strings.Contains(string(result.Request), `\"adjudication\":\"majority_vote\"`) || !strings.Contains(string(result.Request), `\"redundancy\":3`) {
		t.Errorf("the request that the receipts bind says: %s", result.Request)
	}
	w.settledUp(t, c, 2*(rateMsats+feeMsats))
}

// TestLosersAreReleased: a provider whose delivered result is not taken is told,
// cancels its invoice and has done with the job at once.
func TestLosersAreReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rivals := w.honest(t, 2)
	liar := w.rival(t, "liar")
	liar.runner.do = rubbish(liar.runner)
	w.open(t, liar, nil)
	c := w.customer(t, unhurried)
	p := w.panel(t, c, buyer.RuleMajority, liar, rivals[0], rivals[1])
	p, err := c.client.FollowPanel(w.ctx, p.ID, nil)
	check(t, err)
	_, err = w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{7000}, Authors: []string{liar.key.PublicKey()}}, func(ev nostr.Event) bool {
		s := ev.Tags.Find("status")
		return s != nil && s[1] == "error" && strings.HasPrefix(s[2], string(provider.CodeUnpaid))
	})
	check(t, err)
	job, err := liar.kernel.ProviderStore("paid-job").Job(w.ctx, p.Seats[0].RequestID)
	if err != nil || job.State != provider.StateFailed || job.ReceiptID != "" {
		t.Errorf("the loser's job is %s, %v", job.State, err)
	}
	if q, err := receipts.ParseQuote(job.Quote); err != nil || q.Delivery != receipts.DeliverySealed {
		t.Errorf("quote %+v, %v", q, err)
	}
	w.settledUp(t, c, 2*(rateMsats+feeMsats))
}
