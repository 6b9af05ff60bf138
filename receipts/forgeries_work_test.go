package receipts_test

import (
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

func forgedRequest() []scenario {
	noResult := receipts.NotProvable
	return []scenario{
		{
			name: "job_kind", about: "the request event is no job request",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Kind = 1 }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_two_inputs", about: "the request has two inputs: which one was run is open",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"i", requestDoc, "text"}) }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_input_of_no_type", about: "the input names no type, as some clients send it: it is text",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1] = ev.Tags[1][:2] }},
		},
		{
			name: "job_input_of_an_empty_type", about: "the input's type is empty: it is text",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1][2] = "" }},
		},
		{
			name: "job_input_prompt", about: "the input is called a prompt: it is text",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1][2] = "prompt" }},
		},
		{
			name: "job_input_url", about: "the input is said to be at an address: it is not the document",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1][2] = "url" }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_two_schemas", about: "the request names two schemas",
			recipe: recipe{request: func(ev *receipts.Event) {
				ev.Tags = append(ev.Tags, []string{"param", "job_type", "oa.embedding.v1"})
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_empty_schema", about: "a param schema is empty: it names none, and the other one counts",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"param", "schema", ""}) }},
		},
		{
			name: "job_no_schema", about: "the only param schema is empty",
			recipe: recipe{request: func(ev *receipts.Event) {
				for _, tag := range ev.Tags {
					if tag[0] == "param" && tag[1] == "schema" {
						tag[2] = ""
					}
				}
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_other_input", about: "the buyer ordered something else",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1][1] = strings.Replace(requestDoc, "make check", "make clean", 1) }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_encrypted", about: "the request is encrypted",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags = [][]string{{"encrypted"}} }},
			want:   states{receipts.ClaimJob: receipts.NotProvable, receipts.ClaimResult: noResult},
		},
		{
			name: "request_by_another", about: "another key signed the request",
			recipe: recipe{signRequest: person("stranger")},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "request_swapped", about: "the same order by the same buyer, a second later",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				b.Request = recipe{request: func(ev *receipts.Event) { ev.CreatedAt++ }}.make().bundle.Request
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_for_another_provider", about: "the request is an order to another provider",
			recipe: recipe{request: func(ev *receipts.Event) {
				for _, tag := range ev.Tags {
					if tag[0] == "p" {
						tag[1] = strings.Repeat("ab", 32)
					}
				}
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "verification_another_adjudication", about: "the receipt says that a judge chose, and the request asked for none",
			recipe: recipe{receipt: func(r *receipts.Receipt) {
				r.Verification = receipts.Verification{Adjudication: schemas.JudgeModel, Redundancy: 1, Tier: schemas.TierJudge}
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable},
		},
		{
			name: "verification_another_redundancy", about: "the receipt says that three providers ran the job, and the request one",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Verification.Redundancy = 3 }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable},
		},
		{
			name: "verification_another_tier", about: "the receipt says that nothing but a name stands behind an objective result",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Verification.Tier = schemas.TierReputation }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable},
		},
		{
			name: "valid_panel_seat", about: "the job was one seat of three, whose majority was to decide",
			recipe: recipe{
				document: strings.Replace(requestDoc, `"commands"`, `"verification":{"redundancy":3,"adjudication":"majority_vote"},"commands"`, 1),
				receipt: func(r *receipts.Receipt) {
					r.Verification = receipts.Verification{Adjudication: schemas.MajorityVote, Redundancy: 3, Tier: schemas.TierConsensus}
				},
			},
		},
		{
			name: "valid_bid_of_exactly_the_price", about: "the buyer would have paid no more",
			recipe: recipe{request: func(ev *receipts.Event) { setTag(ev, "bid", "21000") }},
		},
		{
			name: "job_bid_below_price", about: "the buyer would have paid a thousandth of it",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"bid", "21"}) }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_another_mode", about: "the buyer asked to pay afterwards",
			recipe: recipe{request: func(ev *receipts.Event) {
				ev.Tags = append(ev.Tags, []string{"param", "payment_mode", "postpay"})
			}},
			want: states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_after_settlement", about: "the request is dated a year after the settlement",
			recipe: recipe{request: func(ev *receipts.Event) { ev.CreatedAt += 365 * 24 * 3600 }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "job_after_quote", about: "the quote had expired long before the request was signed",
			recipe: recipe{quote: func(q *receipts.Quote) { q.ExpiresAt = "1999-01-01T00:00:00Z" }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "request_breaks_schema", about: "the request lacks what its schema wants",
			recipe: recipe{request: func(ev *receipts.Event) { ev.Tags[1][1] = `{}` }},
			want:   states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: noResult},
		},
		{
			name: "schema_unknown", about: "a job type that the verifier does not know",
			recipe: ofSchema("oa.unknown.v1", "oa.unknown.v1"),
			want:   states{receipts.ClaimJob: receipts.NotProvable, receipts.ClaimResult: noResult},
		},
		{
			name: "schema_differs", about: "quoted and receipted as another job type than was ordered",
			recipe: ofSchema("oa.sandbox_run.v1", "oa.embedding.v1"), want: failed(receipts.ClaimJob, receipts.ClaimResult),
		},
	}
}

func forgedResult() []scenario {
	noResult := receipts.NotProvable
	other := recipe{output: func(out map[string]any) { out["status"] = "error" }}.make()
	return []scenario{
		{
			name: "result_event_resigned", about: "the same result event, a second later",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				b.ResultEvent = recipe{resultEvent: func(ev *receipts.Event) { ev.CreatedAt++ }}.make().bundle.ResultEvent
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "result_not_expected", about: "the request pays for exit code 7 alone",
			recipe: recipe{document: expectSeven}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_after_settlement", about: "the result is dated a year after the settlement",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { ev.CreatedAt += 365 * 24 * 3600 }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_encrypted", about: "the result was delivered encrypted",
			recipe: recipe{resultEvent: func(ev *receipts.Event) {
				ev.Content, ev.Tags = "AmFkZ2U=", append(ev.Tags, []string{"encrypted"})
			}},
			want: states{receipts.ClaimResult: noResult},
		},
		{
			name: "seal_absent", about: "a sealed result without the document that its event commits to",
			recipe: recipe{seal: true, finished: func(b *receipts.Bundle) { b.Seal = nil }}, want: states{receipts.ClaimResult: noResult},
		},
		{
			name: "seal_of_another_output", about: "the event commits to another output than the receipt says",
			recipe: recipe{seal: true, sealed: func(s *receipts.Seal) { s.OutputHash = hashing.Bytes([]byte("other")) }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "seal_of_another_agreement", about: "the event commits to no agreement, the receipt claims one",
			recipe: recipe{seal: true, sealed: func(s *receipts.Seal) { s.AgreementHash = nil }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "seal_swapped", about: "the same seal with another salt",
			recipe: recipe{seal: true, finished: func(b *receipts.Bundle) {
				b.Seal = recipe{seal: true, sealed: func(s *receipts.Seal) { s.Salt = strings.Repeat("0", 64) }}.make().bundle.Seal
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "seal_beside_plain", about: "a seal beside a result that was delivered in the clear",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Seal = recipe{seal: true}.make().bundle.Seal }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "sealed_claimed_plain", about: "quoted and delivered in the clear, receipted as sealed",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Delivery = receipts.DeliverySealed }},
			want:   failed(receipts.ClaimResult, receipts.ClaimInvoiceCommits),
		},
		{
			name: "seal_lists_another_result", about: "the seal lists another result than the one it names",
			recipe: recipe{seal: true, sealed: func(s *receipts.Seal) { s.Contents[0].Digest = hashing.Bytes([]byte("other")) }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "seal_lists_another_replay", about: "the seal lists another record than the one it names",
			recipe: recipe{seal: true, sealed: func(s *receipts.Seal) { s.Contents[1].Digest = hashing.Bytes([]byte("other")) }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "seal_lists_another_size", about: "the seal lists the result with another size",
			recipe: recipe{seal: true, sealed: func(s *receipts.Seal) { s.Contents[0].Size++ }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "result_content_differs", about: "the signed event carries another result than the bundle",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { ev.Content = string(other.bundle.Result) }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_broken_off", about: "a result that says that the work was cancelled",
			recipe: recipe{output: func(out map[string]any) { out["status"] = "cancelled" }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_breaks_schema", about: "the result lacks what its schema wants",
			recipe: recipe{output: func(out map[string]any) { delete(out, "status") }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "output_hash", about: "everything that was signed commits to another output",
			recipe: recipe{delivered: func(t *receipts.ResultTerms) { t.OutputHash = hashing.Bytes([]byte("other")) }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "agreement_hash", about: "everything that was signed commits to another agreement",
			recipe: recipe{delivered: func(t *receipts.ResultTerms) { d := hashing.Bytes([]byte("other")); t.AgreementHash = &d }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "agreement_without_stdout", about: "the request has the standard output count, and what was signed leaves it out",
			recipe: recipe{document: comparesStdout, delivered: agreeAs(requestDoc)}, want: failed(receipts.ClaimResult),
		},
		{
			name: "agreement_with_stdout", about: "the request does not have the standard output count, and what was signed has it",
			recipe: recipe{delivered: agreeAs(comparesStdout)}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_event_swapped", about: "another result event of the same provider",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.ResultEvent = other.result.JSON() }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_swapped", about: "another result document",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Result = other.bundle.Result }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_kind", about: "the result's kind is not the request's plus 1000",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { ev.Kind = 6051 }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_for_two_requests", about: "one result event for two requests",
			recipe: recipe{resultEvent: func(ev *receipts.Event) {
				ev.Tags = append(ev.Tags, []string{"e", strings.Repeat("ab", 32)})
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "result_to_another_buyer", about: "the result was addressed to another buyer",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { setTag(ev, "p", xOnly(person("stranger"))) }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_tag_differs", about: "the result event commits to another output",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { setTag(ev, "output_hash", digest([]byte("other"))) }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_of_other_commands", about: "the result is of a command that was not ordered",
			recipe: recipe{output: func(out map[string]any) { out["runs"].([]any)[0].(map[string]any)["cmd"] = "true" }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_of_another_provider", about: "the result's provenance names another provider",
			recipe: recipe{output: func(out map[string]any) {
				out["provenance"].(map[string]any)["provider_pubkey"] = xOnly(person("stranger"))
			}},
			want: failed(receipts.ClaimResult),
		},
	}
}

// expectSeven is an order that pays for exit code 7 alone.
// comparesStdout has what the commands print to standard output count among results.
var comparesStdout = strings.TrimSuffix(requestDoc, "}") + `,"verification":{"compare_stdout":true}}`

// saysNothing is requestDoc with words that say the same as none: its job_hash is that
// of requestDoc.
var saysNothing = strings.TrimSuffix(requestDoc, "}") + `,"env":{},"verification":{"compare_stdout":false}}`

// agreeAs commits to the agreement hash that the result has under another request.
func agreeAs(document string) func(*receipts.ResultTerms) {
	other := recipe{document: document}.make()
	return func(t *receipts.ResultTerms) { t.AgreementHash = other.terms.AgreementHash }
}

var expectSeven = strings.TrimSuffix(requestDoc, "}") + `,"verification":{"expected":{"exit_codes":[7,7]}}}`
