package receipts_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/receipts"
)

// engagementFees are receipts of fees for an attempt, and what can be forged
// about them.
func engagementFees() []scenario {
	noWork := func(also states) states {
		s := states{receipts.ClaimResult: receipts.NotProvable, receipts.ClaimTrajectory: receipts.NotProvable}
		for name, state := range also {
			s[name] = state
		}
		return s
	}
	return []scenario{
		{name: "engagement", about: "the receipt of an engagement fee, which names no work", recipe: recipe{fee: true}, want: noWork(nil)},
		{
			name: "engagement_first_receipt", about: "an engagement fee of a request that asks for mode hold",
			recipe: recipe{fee: true, first: true, request: func(ev *receipts.Event) {
				ev.Tags = append(ev.Tags, []string{"param", "payment_mode", "hold"})
			}},
			want: noWork(nil),
		},
		{
			name: "engagement_above_bid", about: "an engagement fee of more than the buyer bid", want: noWork(failed(receipts.ClaimJob)),
			recipe: recipe{fee: true, request: func(ev *receipts.Event) {
				ev.Tags = slices.DeleteFunc(ev.Tags, func(t []string) bool { return t[0] == "bid" })
				ev.Tags = append(ev.Tags, []string{"bid", "20999"})
			}},
		},
		{
			name: "engagement_as_result", about: "a receipt of work for a quote of an engagement fee",
			recipe: recipe{mode: receipts.ModePrepay, quote: func(q *receipts.Quote) { q.Purpose = receipts.PurposeEngagement }},
			want:   failed(receipts.ClaimInvoiceCommits),
		},
		{
			name: "result_as_engagement", about: "a receipt of an engagement fee for a quote of the result",
			recipe: recipe{fee: true, quote: func(q *receipts.Quote) { q.Purpose = receipts.PurposeResult }},
			want:   noWork(failed(receipts.ClaimInvoiceCommits)),
		},
		{
			name: "engagement_with_result", about: "a result that nothing binds lies beside the receipt of an engagement fee",
			recipe: recipe{fee: true, finished: func(b *receipts.Bundle) { b.Result = recipe{}.make().bundle.Result }},
			want:   noWork(failed(receipts.ClaimResult)),
		},
		{
			name: "engagement_with_artifact", about: "an artifact that nothing binds lies beside the receipt of an engagement fee",
			recipe: recipe{fee: true, finished: func(b *receipts.Bundle) { b.Artifacts[hashing.Bytes(buildLog).Hex()] = buildLog }},
			want:   noWork(failed(receipts.ClaimResult)),
		},
		{
			name: "engagement_with_replay", about: "a record that nothing binds lies beside the receipt of an engagement fee",
			recipe: recipe{fee: true, finished: func(b *receipts.Bundle) { b.Replay = recipe{}.make().bundle.Replay }},
			want:   noWork(failed(receipts.ClaimTrajectory)),
		},
	}
}

// The claims about work are lacking, and not required unless the reader says so.
func TestEngagementFeeIsGradedForWhatItIs(t *testing.T) {
	b := recipe{fee: true}.make().bundle
	p := pins()
	p.Required = nil
	report := receipts.Verify(b, p)
	if report.ExitCode() != receipts.ExitProved || report.Purpose != receipts.PurposeEngagement {
		t.Errorf("exit %d, purpose %q: %+v", report.ExitCode(), report.Purpose, report.Claims)
	}
	for _, name := range []string{receipts.ClaimResult, receipts.ClaimTrajectory} {
		if c := report.Claim(name); c.State != receipts.NotProvable || c.Required || !strings.Contains(c.Reason, "engagement fee") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	p.Required = []string{receipts.ClaimResult}
	if got := receipts.Verify(b, p).ExitCode(); got != receipts.ExitNotProvable {
		t.Errorf("exit %d although the result is required", got)
	}
	if got := receipts.Verify(recipe{}.make().bundle, receipts.Pins{}).Purpose; got != receipts.PurposeResult {
		t.Errorf("purpose %q of a result's receipt", got)
	}
}

func TestEngagementReceiptHasEveryFieldAndNoWork(t *testing.T) {
	requirements.Covers(t, "OA-4.1")
	m := recipe{fee: true}.make()
	for _, field := range []string{
		`"receipt_id":"rcpt_`, `"session_id":null`, `"trajectory_hash":null`, `"policy_bundle_id":"sha256:`, `"job_hash":"sha256:`,
		`"payment_proof":{"type":"lightning_preimage","value":"`, `"rail":"lightning"`, `"asset_id":"PLAY_LN"`, `"amount_msats":21000`,
		`"provider_id":"npub1`, `"approval_rule_id":"`, `"timestamp":"`, `"purpose":"engagement"`, `"result_event_id":null`,
	} {
		if !bytes.Contains(m.bundle.Receipt, []byte(field)) {
			t.Errorf("no %s in %s", field, m.bundle.Receipt)
		}
	}
	made, err := receipts.New(m.evidence)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := made.Canonical()
	if err != nil || !bytes.Equal(doc, m.bundle.Receipt) {
		t.Errorf("New gives %s (%v)", doc, err)
	}
	if bytes.Contains(recipe{}.make().bundle.Receipt, []byte(`"purpose"`)) {
		t.Error("the receipt of a result names a purpose")
	}
}

func TestEngagementReceiptWithWorkIsNone(t *testing.T) {
	doc := string(recipe{fee: true}.make().bundle.Receipt)
	work := recipe{}.make().receipt
	for from, to := range map[string]string{
		`"session_id":null`:                `"session_id":"session-1"`,
		`"trajectory_hash":null`:           `"trajectory_hash":"` + work.TrajectoryHash.String() + `"`,
		`"output_hash":null`:               `"output_hash":"` + work.OutputHash.String() + `"`,
		`"result_event_id":null`:           `"result_event_id":"` + work.ResultEventID + `"`,
		`"agreement_hash":null`:            `"agreement_hash":"` + work.AgreementHash.String() + `"`,
		`"mode":"prepay"`:                  `"mode":"hold"`,
		`"purpose":"engagement"`:           `"purpose":"result"`,
		`"purpose":"engagement",`:          ``,
		`"plan_hash":null`:                 `"plan_hash":""`,
		`"redacted_trajectory_hash":null,`: ``,
	} {
		forged := strings.Replace(doc, from, to, 1)
		if forged == doc {
			t.Errorf("%s is not there", from)
		}
		if _, err := receipts.ParseReceipt([]byte(forged)); err == nil {
			t.Errorf("%s in place of %s passes", to, from)
		}
	}
	m := recipe{fee: true}.make()
	m.evidence.ResultEventID = work.ResultEventID
	if _, err := receipts.New(m.evidence); err == nil {
		t.Error("a receipt of an engagement fee was made for a result")
	}
}
