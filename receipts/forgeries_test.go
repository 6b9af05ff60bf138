package receipts_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
)

type states = map[string]receipts.State

// scenario is one bundle and what must be found in it: every claim that want
// does not name is proved. Each is also a vector in testdata/vectors.
type scenario struct {
	name   string
	about  string
	recipe recipe
	pins   func(*receipts.Pins)
	keys   []string // lines of the key changes that are known
	want   states
	// measured: there are too many of the kind to say for each which claims fail.
	// TestVectorsAreCurrent holds that some do, and that they stay the same.
	measured bool
	// because has words of the reason why a claim fails, for those that say so. Both
	// verifiers use them.
	because map[string]string
}

func failed(claims ...string) states {
	s := states{}
	for _, c := range claims {
		s[c] = receipts.Failed
	}
	return s
}

// sentence fills the one word of an about.
func sentence(about, word string) string { return strings.Replace(about, "%s", word, 1) }

func otherHash() payments.Hash { return payments.Preimage{1}.Hash() }

// scenarios are made by an attacker who holds whatever keys it takes.
func scenarios() []scenario {
	return slices.Concat(baseline(), forgedSignature(), forgedRequest(), forgedResult(), forgedArtifacts(), forgedReplay(), forgedPolicy(), forgedPayment(), paidInNotes(), paidOnChain(), forgedQuote(), forgedPayee(), forgedAcceptance(), forgedChain(),
		badSignatures(), lackAndContradiction(), forgedOrder(), engagementFees(), demands(), chains(), otherDomains(), twoReadings(), prunedParts(), changedKeys())
}

func baseline() []scenario {
	return []scenario{
		{name: "valid", about: "every claim is proved", recipe: recipe{}},
		{name: "valid_first_receipt", about: "the first receipt of a provider", recipe: recipe{first: true}},
		{name: "valid_postpay", about: "paid after the run, which the report says", recipe: recipe{mode: receipts.ModePostpay}},
		{name: "valid_sealed", about: "delivered sealed: the event commits to SEAL.json", recipe: recipe{seal: true}},
		{name: "valid_sealed_postpay", about: "delivered sealed and paid afterwards", recipe: recipe{seal: true, mode: receipts.ModePostpay}},
		{name: "valid_simnet", about: "an invoice of simnet", recipe: recipe{network: payments.Simnet}, pins: func(p *receipts.Pins) { p.Network = payments.Simnet }},
		{name: "valid_redacted", about: "a redacted record, which the report says", recipe: recipe{finished: func(b *receipts.Bundle) { b.Replay = redacted(b.Replay) }}},
		{name: "valid_without_agreement", about: "no agreement hash is claimed", recipe: recipe{delivered: func(t *receipts.ResultTerms) { t.AgreementHash = nil }}},
		{name: "valid_with_stdout", about: "the request has the standard output count among results", recipe: recipe{document: comparesStdout}},
		{name: "valid_with_nothing_said", about: "the request says what it would mean without: no environment, and no standard output that counts", recipe: recipe{document: saysNothing}},
		{
			name: "valid_without_rule", about: "a person accepted, and no rule is named",
			recipe: recipe{acceptance: func(a *receipts.Acceptance) { a.ApprovalRuleID = nil }},
		},
		{
			name: "no_acceptance", about: "the buyer sent no acceptance",
			recipe: recipe{noAcceptance: true}, want: states{receipts.ClaimBuyerAccepted: receipts.NotProvable},
		},
		{
			name: "quote_without_payment_hash", about: "the wallet chose the preimage after the quote, and nothing else that the provider signed before names the invoice",
			recipe: recipe{mode: receipts.ModePrepay, quote: func(q *receipts.Quote) { q.PaymentHash = nil }},
			want:   states{receipts.ClaimInvoiceCommits: receipts.NotProvable},
		},
		{
			name: "valid_without_payment_hash", about: "the wallet chose the preimage after the quote, and the provider's demand names the invoice",
			recipe: recipe{mode: receipts.ModePrepay, asked: true, quote: func(q *receipts.Quote) { q.PaymentHash = nil }},
		},
		{
			name: "valid_postpay_without_payment_hash", about: "the wallet chose the preimage after the quote, which is paid after the run",
			recipe: recipe{mode: receipts.ModePostpay, asked: true, quote: func(q *receipts.Quote) { q.PaymentHash = nil }},
		},
		{
			name: "artifact_absent", about: "an artifact that the result lists is not in the bundle",
			recipe: recipe{finished: func(b *receipts.Bundle) { delete(b.Artifacts, hashing.Bytes(buildLog).Hex()) }},
			want:   states{receipts.ClaimResult: receipts.NotProvable},
		},
		{
			name: "payee_not_pinned", about: "nobody said which node was to be paid",
			pins: func(p *receipts.Pins) { p.Payee = "" }, want: states{receipts.ClaimPayeePinned: receipts.NotProvable},
		},
	}
}

func forgedSignature() []scenario {
	return []scenario{
		{
			name: "receipt_signed_by_another", about: "another key signed the provider's receipt",
			recipe: recipe{signReceipt: person("stranger")}, want: failed(receipts.ClaimSignature),
		},
		{
			name: "receipt_event_of_another_receipt", about: "the signed content is another receipt",
			recipe: recipe{receiptEvent: func(ev *receipts.Event) { ev.Content = strings.Replace(ev.Content, "session-1", "session-2", 1) }},
			want:   failed(receipts.ClaimSignature),
		},
		{
			name: "receipt_event_without_result_tag", about: "the event's tags do not name the result",
			recipe: recipe{receiptEvent: func(ev *receipts.Event) { ev.Tags = append(ev.Tags[:1:1], ev.Tags[2:]...) }},
			want:   failed(receipts.ClaimSignature),
		},
		{
			name: "another_provider_pinned", about: "a genuine bundle of somebody else",
			pins: func(p *receipts.Pins) { p.Provider = xOnly(person("stranger")) }, want: failed(receipts.ClaimSignature),
		},
	}
}

func forgedAcceptance() []scenario {
	const accepted = receipts.ClaimBuyerAccepted
	earlier := recipe{acceptEvent: func(ev *receipts.Event) { ev.CreatedAt-- }}.make()
	return []scenario{
		{name: "acceptance_by_another", about: "somebody else signed the acceptance", recipe: recipe{signAcceptance: person("stranger")}, want: failed(accepted)},
		{
			name: "acceptance_after_settlement", about: "the acceptance is younger than the receipt",
			recipe: recipe{acceptEvent: func(ev *receipts.Event) { ev.CreatedAt = settled + 1 }}, want: failed(accepted),
		},
		{
			name: "acceptance_of_another_quote", about: "the buyer accepted another quote",
			recipe: recipe{acceptance: func(a *receipts.Acceptance) { a.QuoteHash = hashing.Bytes([]byte("other")) }}, want: failed(accepted),
		},
		{
			name: "acceptance_of_another_request", about: "the buyer accepted for another request",
			recipe: recipe{
				acceptance:  func(a *receipts.Acceptance) { a.RequestID = strings.Repeat("cd", 32) },
				acceptEvent: func(ev *receipts.Event) { setTag(ev, "e", recipe{noAcceptance: true}.make().request.ID) },
			},
			want: failed(accepted),
		},
		{
			name: "acceptance_of_another_payment", about: "the buyer accepted another payment hash",
			recipe: recipe{acceptance: func(a *receipts.Acceptance) { a.PaymentHash = otherHash().String() }}, want: failed(accepted),
		},
		{
			name: "acceptance_of_another_price", about: "the buyer accepted a lower price",
			recipe: recipe{acceptance: func(a *receipts.Acceptance) { a.PriceMsats = 1 }}, want: failed(accepted),
		},
		{
			name: "acceptance_to_another_provider", about: "the acceptance is addressed to another provider",
			recipe: recipe{acceptEvent: func(ev *receipts.Event) { setTag(ev, "p", xOnly(person("stranger"))) }}, want: failed(accepted),
		},
		{
			name: "acceptance_under_another_rule", about: "the receipt names another rule than the buyer",
			recipe: recipe{receipt: func(r *receipts.Receipt) { rule := "a person"; r.ApprovalRuleID = &rule }}, want: failed(accepted),
		},
		{
			name: "acceptance_swapped", about: "another acceptance of the same quote by the same buyer",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Acceptance = earlier.bundle.Acceptance }}, want: failed(accepted),
		},
		{
			name: "acceptance_not_named", about: "the bundle holds an acceptance that the receipt does not name",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.AcceptanceEventID, r.ApprovalRuleID = nil, nil }}, want: failed(accepted),
		},
		{
			name: "rule_without_acceptance", about: "a rule is named and no acceptance",
			recipe: recipe{noAcceptance: true, receipt: func(r *receipts.Receipt) { rule := "auto"; r.ApprovalRuleID = &rule }}, want: failed(accepted),
		},
	}
}

func forgedChain() []scenario {
	const chain = receipts.ClaimChain
	stranger := recipe{provider: person("stranger"), first: true}.make()
	return []scenario{
		{
			name: "previous_swapped", about: "another receipt of the provider in place of the one before",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Previous = recipe{first: true}.make().bundle.Receipt }}, want: failed(chain),
		},
		{
			name: "previous_is_no_receipt", about: "the receipt continues something that is none",
			recipe: recipe{
				receipt:  func(r *receipts.Receipt) { d := hashing.Bytes([]byte("{}")); r.PreviousReceiptHash = &d },
				finished: func(b *receipts.Bundle) { b.Previous = []byte("{}") },
			},
			want: failed(chain),
		},
		{
			name: "previous_skips", about: "the receipt before is not one number before",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Sequence = 3 }}, want: failed(chain),
		},
		{
			name: "previous_of_another_provider", about: "the chain continues another provider's",
			recipe: recipe{
				receipt:  func(r *receipts.Receipt) { d := hashing.Bytes(stranger.bundle.Receipt); r.PreviousReceiptHash = &d },
				finished: func(b *receipts.Bundle) { b.Previous = stranger.bundle.Receipt },
			},
			want: failed(chain),
		},
		{
			name: "first_with_previous", about: "a first receipt with one before it",
			recipe: recipe{first: true, finished: func(b *receipts.Bundle) { b.Previous = stranger.bundle.Receipt }}, want: failed(chain),
		},
	}
}

// ofSchema orders one job type and quotes, delivers and receipts another.
func ofSchema(ordered, receipted string) recipe {
	return recipe{
		request:   func(ev *receipts.Event) { ev.Tags[0][2] = ordered },
		quote:     func(q *receipts.Quote) { q.SchemaID = receipted },
		delivered: func(t *receipts.ResultTerms) { t.SchemaID = receipted },
	}
}

func redacted(file []byte) []byte {
	var out bytes.Buffer
	if err := replay.Redact(bytes.NewReader(file), &out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func setTag(ev *receipts.Event, name, value string) {
	for _, tag := range ev.Tags {
		if tag[0] == name {
			tag[1] = value
		}
	}
}

// cutLines removes lines by index from 0; -1 is the last.
func cutLines(file []byte, drop ...int) []byte {
	lines := bytes.SplitAfter(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(bytes.Clone(lines[len(lines)-1]), '\n')
	var out []byte
	for i, line := range lines {
		keep := true
		for _, d := range drop {
			keep = keep && d != i && d+len(lines) != i
		}
		if keep {
			out = append(out, line...)
		}
	}
	return out
}

func (s scenario) allPins() receipts.Pins {
	p := pins()
	if s.pins != nil {
		s.pins(&p)
	}
	if s.keys != nil {
		p.Keys = must(receipts.ReadKeyHistory([]byte(keyLines(s.keys))))
	}
	return p
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			report := receipts.Verify(s.recipe.make().bundle, s.allPins())
			wantStates(t, report, s.want)
			if want := exitFor(s.want); report.ExitCode() != want {
				t.Errorf("exit %d, want %d", report.ExitCode(), want)
			}
		})
	}
}

// exitFor follows from the states when every claim is required.
func exitFor(want states) int {
	code := receipts.ExitProved
	for _, s := range want {
		if s == receipts.Failed {
			return receipts.ExitFailed
		}
		code = receipts.ExitNotProvable
	}
	return code
}

// The second of the settlement is still in time: the event of a buyer knows no
// finer unit.
func TestAcceptanceInTheSecondOfSettlement(t *testing.T) {
	m := recipe{acceptEvent: func(ev *receipts.Event) { ev.CreatedAt = settled }}.make()
	wantStates(t, receipts.Verify(m.bundle, pins()), nil)
}
