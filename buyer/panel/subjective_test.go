package panel_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// ranks is an agent whose taste is the order of the ids.
func ranks(r *markettest.Runner, ids ...string) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(context.Context, provider.Run) (provider.Outcome, error) {
		res := schemas.RerankResult{Provenance: schemas.Provenance{ModelID: "taste of " + r.Key[:8], ProviderPubkey: r.Key}}
		for i, id := range ids {
			res.TopK = append(res.TopK, schemas.Ranked{Rank: int64(i + 1), ID: id, Score: float64(len(r.Key)) / float64(i+2), Why: "by " + r.Key[:8]})
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
	w := markettest.New(t)
	var rivals []*markettest.Rival
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b"}} {
		r := w.NewRival(t, "ranker-"+string(rune('0'+i)))
		r.Runner.Do = ranks(r.Runner, order...)
		w.OpenWith(t, r, nil, schemas.RetrievalRerank)
		rivals = append(rivals, r)
	}
	c := w.NewCustomer(t, markettest.Unhurried)
	seats := membersOf(rivals...)
	for i := range seats {
		seats[i].BaseMsats = map[string]int64{string(schemas.RetrievalRerank): 0}
	}
	p, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.RetrievalRerank), Members: seats, Rule: panel.RuleMajority, MaxMsats: 3 * (markettest.RateMsats + 10), CommitTimeout: markettest.Slow,
		Input: []byte(`{"user_task":"find it","candidates":[{"id":"a","content":"x"},{"id":"b","content":"y"}],"k":2}`),
	})
	markettest.Check(t, err)
	p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	if p.Decision.Outcome != panel.OutcomeAgreed || p.Decision.Reason != "2 of 3 agree" {
		t.Errorf("decision %+v", p.Decision)
	}
	for i, want := range []int64{markettest.RateMsats, 0, markettest.RateMsats} {
		if got := w.Earned(t, rivals[i]); got != want {
			t.Errorf("ranker %d earned %d msats, want %d", i, got, want)
		}
		if want > 0 {
			proved(t, w, c, p.Members[i])
		}
	}
	result, err := c.Panels(t).Result(w.Ctx, p)
	markettest.Check(t, err)
	if !strings.Contains(string(result.Request), `\"adjudication\":\"majority_vote\"`) || !strings.Contains(string(result.Request), `\"redundancy\":3`) {
		t.Errorf("the request that the receipts bind says: %s", result.Request)
	}
	w.SettledUp(t, c, 2*(markettest.RateMsats+markettest.FeeMsats))
}

// TestLosersAreReleased: a provider whose delivered result is not taken is told,
// cancels its invoice and has done with the job at once.
func TestLosersAreReleased(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 2)
	liar := w.NewRival(t, "liar")
	liar.Runner.Do = rubbish(liar.Runner)
	w.Open(t, liar, nil)
	c := w.NewCustomer(t, markettest.Unhurried)
	p := placePanel(t, w, c, panel.RuleMajority, liar, rivals[0], rivals[1])
	p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	_, err = w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{7000}, Authors: []string{liar.Key.PublicKey()}}, func(ev nostr.Event) bool {
		s := ev.Tags.Find("status")
		return s != nil && s[1] == "error" && strings.HasPrefix(s[2], string(provider.CodeUnpaid))
	})
	markettest.Check(t, err)
	job, err := liar.DB.Sales("paid-job").Job(w.Ctx, p.Members[0].RequestID)
	if err != nil || job.State != provider.StateFailed || job.ReceiptID != "" {
		t.Errorf("the loser's job is %s, %v", job.State, err)
	}
	if q, err := receipts.ParseQuote(job.Quote); err != nil || q.Delivery != receipts.DeliverySealed {
		t.Errorf("quote %+v, %v", q, err)
	}
	w.SettledUp(t, c, 2*(markettest.RateMsats+markettest.FeeMsats))
}
