package receipts_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

const dayMs = 24 * 3_600_000

// prunes makes the provider's bundle: without these parts, and with its word on all of
// them. change may make it another word, key is who signs it.
func prunes(gone []string, at int64, key *btcec.PrivateKey, change func(*receipts.Pruning, *receipts.Event)) func(*receipts.Bundle) {
	return func(b *receipts.Bundle) {
		receipt := must(receipts.ParseReceipt(b.Receipt))
		said := receipts.Pruning{Version: 1, ReceiptID: receipt.ReceiptID, RequestID: receipt.RequestEventID}
		for _, part := range []string{receipts.PartResults, receipts.PartArtifacts, receipts.PartTrajectories} {
			said.Parts = append(said.Parts, receipts.PrunedPart{Part: part, At: receipts.Timestamp(time.Unix(at, 0))})
		}
		ev := must(said.Event(at + 10))
		if change != nil {
			change(&said, &ev)
		}
		sign(&ev, key)
		b.Pruned = ev.JSON()
		for _, part := range gone {
			switch part {
			case receipts.PartResults:
				b.Result = nil
			case receipts.PartArtifacts:
				clear(b.Artifacts)
				b.PRSummary = nil
			case receipts.PartTrajectories:
				b.Replay = nil
			}
		}
	}
}

// says makes the content from the changed document, whether it is valid or not.
func says(change func(*receipts.Pruning)) func(*receipts.Pruning, *receipts.Event) {
	return func(p *receipts.Pruning, ev *receipts.Event) {
		change(p)
		doc, err := p.Canonical()
		if err != nil {
			doc = must(json.Marshal(p))
		}
		ev.Content = string(doc)
	}
}

func prunedParts() []scenario {
	const result, trajectory, signature = receipts.ClaimResult, receipts.ClaimTrajectory, receipts.ClaimSignature
	provider, all := person("provider"), []string{receipts.PartResults, receipts.PartArtifacts, receipts.PartTrajectories}
	late := int64(settled + 365*24*3600)
	because := map[string]string{result: "pruned by its provider at ", trajectory: "pruned by its provider at "}
	lost := states{result: receipts.NotProvable, trajectory: receipts.NotProvable}
	failedToo := states{signature: receipts.Failed, result: receipts.NotProvable, trajectory: receipts.NotProvable}

	list := []scenario{
		{
			name: "pruned", about: "result, artifacts and record are gone, as the provider says and its quote allows",
			recipe: recipe{quote: promises(func(r *receipts.Retention) { r.TrajectoriesMs = 30 * dayMs }), finished: prunes(all, late, provider, nil)},
			want:   lost, because: because,
		},
		{
			name: "pruned_without_a_promise", about: "they are gone, as the provider says, and its quote promised nothing",
			recipe: recipe{finished: prunes(all, late, provider, nil)}, want: lost, because: because,
		},
		{
			name: "pruned_artifacts", about: "the artifacts alone are gone, as the provider says",
			recipe: recipe{finished: prunes([]string{receipts.PartArtifacts}, late, provider, nil)},
			want:   states{result: receipts.NotProvable}, because: map[string]string{result: "pruned by its provider at "},
		},
		{
			name: "pruned_and_there", about: "the provider says that it has pruned what the buyer has kept",
			recipe: recipe{finished: prunes(nil, late, provider, nil)},
		},
		{
			name: "pruned_too_soon", about: "the provider pruned what its quote promised to keep",
			recipe: recipe{quote: promises(nil), finished: prunes(all, settled+8*24*3600, provider, nil)}, want: lost,
			because: map[string]string{result: "sooner than its quote promised", trajectory: "sooner than its quote promised"},
		},
	}
	for name, c := range map[string]struct {
		about  string
		key    *btcec.PrivateKey
		change func(*receipts.Pruning, *receipts.Event)
	}{
		"by_another":         {"somebody else says that the provider has pruned", person("stranger"), nil},
		"of_another_receipt": {"the word is on another receipt", provider, says(func(p *receipts.Pruning) { p.ReceiptID = "rcpt_0" })},
		"of_another_request": {"the word is on another request", provider, says(func(p *receipts.Pruning) { p.RequestID = p.RequestID[1:] + "0" })},
		"nothing":            {"the word names no part", provider, says(func(p *receipts.Pruning) { p.Parts = nil })},
		"unknown":            {"the word names a part that there is not", provider, says(func(p *receipts.Pruning) { p.Parts[0].Part = "receipts" })},
		"twice":              {"the word names a part twice", provider, says(func(p *receipts.Pruning) { p.Parts[1].Part = "results" })},
		"unordered":          {"the word names parts in another order", provider, says(func(p *receipts.Pruning) { p.Parts[0], p.Parts[1] = p.Parts[1], p.Parts[0] })},
		"at_no_time":         {"the word has no time", provider, says(func(p *receipts.Pruning) { p.Parts[0].At = "2026-02-30T00:00:00Z" })},
		"as_feedback":        {"the word has the domain of another document", provider, func(_ *receipts.Pruning, ev *receipts.Event) { ev.Tags[1] = domain.Feedback.Tag() }},
		"without_request":    {"the word's tags do not name the request", provider, func(_ *receipts.Pruning, ev *receipts.Event) { ev.Tags = ev.Tags[1:] }},
	} {
		list = append(list, scenario{
			name: "pruned_" + name, about: c.about, want: failedToo,
			recipe: recipe{finished: prunes(all, late, c.key, c.change)},
		})
	}
	return list
}

// TestPrunedIsNoEmptyExcuse: without the provider's word the reason is that something is
// missing, and the exit code is the same.
func TestPrunedIsNoEmptyExcuse(t *testing.T) {
	b := recipe{finished: prunes([]string{receipts.PartResults}, settled, person("provider"), nil)}.make().bundle
	b.Pruned = nil
	if c := receipts.Verify(b, pins()).Claim(receipts.ClaimResult); c.State != receipts.NotProvable || c.Reason != "RESULT.json is in the bundle and is what the event carries: RESULT.json is not in the bundle" {
		t.Errorf("%s: %s", c.State, c.Reason)
	}
}
