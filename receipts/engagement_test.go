package receipts_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments/bolt11"
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
		{
			name: "engagement_without_quote_event", about: "nothing but the receipt says that the provider asked for this payment",
			recipe: recipe{fee: true, finished: func(b *receipts.Bundle) { b.QuoteEvent = nil }},
			want:   noWork(states{receipts.ClaimInvoiceCommits: receipts.NotProvable}),
		},
	}
}

// demands are the events in which a provider asks for a price, and what can be
// forged about them. Of a fee such an event is needed; of a result it is read if it
// is there.
func demands() []scenario {
	commits := failed(receipts.ClaimInvoiceCommits)
	tag := func(change func(tag []string) []string) func(*receipts.Event) {
		return func(ev *receipts.Event) {
			for i, old := range ev.Tags {
				ev.Tags[i] = change(old)
			}
		}
	}
	change := func(name string, items ...string) func(*receipts.Event) {
		return tag(func(old []string) []string {
			if old[0] == name {
				return append([]string{name}, items...)
			}
			return old
		})
	}
	another := recipe{fee: true, invoice: func(inv *bolt11.Invoice) { inv.CreatedAt = inv.CreatedAt.Add(time.Second) }}.make().bolt11
	list := []scenario{{name: "valid_asked", about: "the event that asks for the price lies beside a result's receipt", recipe: recipe{asked: true}}}
	for _, c := range []struct {
		name, about string
		event       func(*receipts.Event)
		signer      string
	}{
		{"of_another_provider", "another provider signed it", nil, "stranger"},
		{"with_another_invoice", "it asks for the payment of another invoice over the same quote", change("amount", "21000", another), "provider"},
		{"without_invoice", "it names no invoice", change("amount", "21000"), "provider"},
		{"with_more_in_amount", "its tag amount has more items", func(ev *receipts.Event) { ev.Tags[3] = append(ev.Tags[3], "x") }, "provider"},
		{"with_two_invoices", "it names two invoices", func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"amount", "21000", another}) }, "provider"},
		{"of_another_price", "it asks for another price", tag(func(old []string) []string {
			if old[0] == "amount" {
				return []string{"amount", "20999", old[2]}
			}
			return old
		}), "provider"},
		{"of_another_job", "it is for another request", change("e", strings.Repeat("ab", 32)), "provider"},
		{"of_another_buyer", "it asks another buyer", change("p", xOnly(person("stranger"))), "provider"},
		{"of_another_status", "it says that a run begins", change("status", "processing"), "provider"},
		{"of_another_quote", "its content is another quote", func(ev *receipts.Event) { ev.Content = strings.Replace(ev.Content, "refund_until", "refund_before", 1) }, "provider"},
		{"of_feedback", "it is a feedback event that carries no quote, with the same content", change("domain", string(domain.Feedback)), "provider"},
		{"without_domain", "it is of a program that knows no domains", func(ev *receipts.Event) { ev.Tags = ev.Tags[:4] }, "provider"},
	} {
		list = append(list,
			scenario{
				name: "engagement_quote_event_" + c.name, about: c.about, recipe: recipe{fee: true, quoteEvent: c.event, signQuote: person(c.signer)},
				want: states{receipts.ClaimResult: receipts.NotProvable, receipts.ClaimTrajectory: receipts.NotProvable, receipts.ClaimInvoiceCommits: receipts.Failed},
			},
			scenario{name: "quote_event_" + c.name, about: c.about, recipe: recipe{asked: true, quoteEvent: c.event, signQuote: person(c.signer)}, want: commits},
		)
	}
	nameless := func(q *receipts.Quote) { q.PaymentHash = nil }
	return append(list, scenario{
		name: "demand_of_another_invoice_without_payment_hash", about: "the quote names no payment hash, and the provider asked for it by another invoice",
		recipe: recipe{mode: receipts.ModePrepay, asked: true, quote: nameless, quoteEvent: change("amount", "21000", another)}, want: commits,
	})
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
