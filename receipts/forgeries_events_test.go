package receipts_test

import (
	"encoding/hex"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// signedParts are the four events of a bundle, and what a false one must fail.
func signedParts() []struct {
	name string
	part func(*receipts.Bundle) *[]byte
	want states
} {
	return []struct {
		name string
		part func(*receipts.Bundle) *[]byte
		want states
	}{
		{"receipt", func(b *receipts.Bundle) *[]byte { return &b.ReceiptEvent }, failed(receipts.ClaimSignature)},
		{"request", func(b *receipts.Bundle) *[]byte { return &b.Request }, states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable}},
		{"result", func(b *receipts.Bundle) *[]byte { return &b.ResultEvent }, failed(receipts.ClaimResult)},
		{"acceptance", func(b *receipts.Bundle) *[]byte { return &b.Acceptance }, failed(receipts.ClaimBuyerAccepted)},
	}
}

// badSignatures are false in nothing but the signature, or in what it covers.
func badSignatures() []scenario {
	forgeries := []struct {
		name, about string
		change      func(*receipts.Event)
	}{
		{"sig_flipped", "one bit of the %s event's signature is another", func(ev *receipts.Event) {
			last := map[byte]string{'0': "1", '1': "0"}[ev.Sig[127]]
			if last == "" {
				last = "0"
			}
			ev.Sig = ev.Sig[:127] + last
		}},
		{"sig_of_another", "another key signed the %s event's id", func(ev *receipts.Event) {
			ev.Sig = hex.EncodeToString(must(schnorr.Sign(person("stranger"), must(hex.DecodeString(ev.ID)))).Serialize())
		}},
		{"changed_under_its_id", "a field of the %s event is another, id and signature are not", func(ev *receipts.Event) { ev.CreatedAt-- }},
		{"changed_under_its_sig", "a field of the %s event and the id are another, the signature is not", func(ev *receipts.Event) {
			ev.CreatedAt--
			ev.ID = ev.ComputeID()
		}},
		{"sig_of_nobody", "the %s event's signature is all zero", func(ev *receipts.Event) {
			ev.Sig = hex.EncodeToString(make([]byte, 64))
		}},
	}
	var all []scenario
	for _, p := range signedParts() {
		for _, f := range forgeries {
			all = append(all, scenario{
				name: p.name + "_" + f.name, about: sentence(f.about, p.name), want: p.want,
				recipe: recipe{finished: func(b *receipts.Bundle) {
					doc := p.part(b)
					ev := must(receipts.ParseEvent(*doc, len(*doc)))
					f.change(&ev)
					*doc = ev.JSON()
				}},
			})
		}
	}
	return all
}

// lackAndContradiction: what is there is judged although something is not.
func lackAndContradiction() []scenario {
	const job, result, accepted = receipts.ClaimJob, receipts.ClaimResult, receipts.ClaimBuyerAccepted
	another := xOnly(person("stranger"))
	otherResult := recipe{output: func(out map[string]any) { out["status"] = "error" }}.make().bundle.Result
	return []scenario{
		{
			name: "no_receipt_event_and_another_provider", about: "the receipt's event is absent, and another provider is pinned",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.ReceiptEvent = nil }},
			pins:   func(p *receipts.Pins) { p.Provider = another }, want: failed(receipts.ClaimSignature),
		},
		{
			name: "no_request_and_another_buyer", about: "the request is absent, and another buyer is pinned",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Request = nil }},
			pins:   func(p *receipts.Pins) { p.Buyer = another },
			want:   states{job: receipts.Failed, accepted: receipts.Failed, result: receipts.NotProvable},
		},
		{
			name: "no_result_event_and_another_result", about: "the result's event is absent, and the result is another",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.ResultEvent, b.Result = nil, otherResult }}, want: failed(result),
		},
		{
			name: "no_result_event_and_not_canonical", about: "the result's event is absent, and the result has another spelling",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.ResultEvent, b.Result = nil, append(b.Result, ' ') }}, want: failed(result),
		},
		{
			name: "no_result_and_event_late", about: "the result is absent, and its event is dated after the settlement",
			recipe: recipe{resultEvent: func(ev *receipts.Event) { ev.CreatedAt = settled + 3600 }, finished: func(b *receipts.Bundle) { b.Result = nil }},
			want:   failed(result),
		},
		{
			name: "no_seal_and_another_job", about: "the seal is absent, and the result's event names another job",
			recipe: recipe{
				seal:        true,
				resultEvent: func(ev *receipts.Event) { setTag(ev, "job_hash", digest([]byte("other"))) },
				finished:    func(b *receipts.Bundle) { b.Seal = nil },
			},
			want: failed(result),
		},
		{
			name: "no_seal_and_another_result", about: "the seal is absent, and the result is another",
			recipe: recipe{seal: true, finished: func(b *receipts.Bundle) { b.Seal, b.Result = nil, otherResult }}, want: failed(result),
		},
		{
			name: "encrypted_and_late", about: "the result was delivered encrypted, and is dated after the settlement",
			recipe: recipe{resultEvent: func(ev *receipts.Event) {
				ev.Content, ev.Tags, ev.CreatedAt = "AmFkZ2U=", append(ev.Tags, []string{"encrypted"}), settled+3600
			}},
			want: failed(result),
		},
		{
			name: "unknown_schema_and_another_output", about: "a job type that is not known, and a result that is not the one receipted",
			recipe: func() recipe {
				r := ofSchema("oa.unknown.v1", "oa.unknown.v1")
				named := r.delivered
				r.delivered = func(t *receipts.ResultTerms) { named(t); t.OutputHash = hashing.Bytes([]byte("other")) }
				return r
			}(),
			want: states{job: receipts.NotProvable, result: receipts.Failed},
		},
		{
			name: "no_acceptance_and_another_buyer", about: "the acceptance is absent, and another buyer is pinned",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Acceptance = nil }},
			pins:   func(p *receipts.Pins) { p.Buyer = another }, want: failed(job, accepted),
		},
		{
			name: "never_accepted_and_another_buyer", about: "the buyer sent no acceptance, and another buyer is pinned",
			recipe: recipe{noAcceptance: true}, pins: func(p *receipts.Pins) { p.Buyer = another }, want: failed(job, accepted),
		},
		{
			name: "result_kind_of_a_refused_order", about: "the request is an order to another provider, and the result's kind is not its",
			recipe: recipe{
				request:     func(ev *receipts.Event) { setTag(ev, "p", another) },
				resultEvent: func(ev *receipts.Event) { ev.Kind = 6051 },
			},
			want: failed(job, result),
		},
	}
}
