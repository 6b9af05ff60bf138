package receipts_test

import (
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/receipts"
)

// earlier is the id of the request whose result is the input of another.
var earlier = strings.Repeat("7", 64)

// inputOf is an event that has the order as its content.
func inputOf(key *btcec.PrivateKey, change func(*receipts.Event)) receipts.Event {
	ev := receipts.Event{Kind: 6050, CreatedAt: requested, Content: requestDoc, Tags: [][]string{{"e", earlier}, {"p", xOnly(person("buyer"))}}}
	apply(change, &ev)
	sign(&ev, key)
	return ev
}

// fedBy is a recipe whose request names its input by tag, and whose bundle
// has the events.
func fedBy(tag []string, events ...receipts.Event) recipe {
	return recipe{
		inputs: receipts.IDs(events),
		request: func(ev *receipts.Event) {
			for i, t := range ev.Tags {
				if t[0] == "i" {
					ev.Tags[i] = tag
				}
			}
		},
		finished: func(b *receipts.Bundle) {
			if events != nil {
				b.Inputs = receipts.WriteInputs(events)
			}
		},
	}
}

// chains are requests whose input is another event.
func chains() []scenario {
	provider, stranger := person("provider"), person("stranger")
	byJob := []string{"i", earlier, "job", "wss://relay.example"}
	good := inputOf(provider, nil)
	post := inputOf(stranger, func(ev *receipts.Event) { ev.Kind, ev.Tags = 1, [][]string{} })
	// What the job was is then unknown, so that no result can be held against it.
	job := states{receipts.ClaimJob: receipts.Failed, receipts.ClaimResult: receipts.NotProvable}
	twice := fedBy(byJob, good, good)
	forged := good
	forged.Content = strings.Replace(forged.Content, "make check", "make clean", 1)
	loose := recipe{finished: func(b *receipts.Bundle) { b.Inputs = receipts.WriteInputs([]receipts.Event{good}) }}
	other := inputOf(provider, func(ev *receipts.Event) { ev.CreatedAt++ })
	quoted := fedBy(byJob, good)
	quoted.finished = func(b *receipts.Bundle) { b.Inputs = receipts.WriteInputs([]receipts.Event{other}) }
	unquoted := fedBy(byJob, good)
	unquoted.inputs = nil
	unseen := fedBy(byJob, good)
	shown := unseen.finished
	unseen.finished = func(b *receipts.Bundle) { shown(b); b.Quote = nil }
	named := recipe{inputs: []string{good.ID}}
	return []scenario{
		{
			name: "input_swapped", about: "the input is another result for the same request, by the same provider and of the same text, than the quote names",
			recipe: quoted, want: job,
		},
		{name: "input_not_quoted", about: "the request names an input, and the quote does not", recipe: unquoted, want: job},
		{name: "input_quoted_and_not_asked", about: "the quote names an input, and the request does not", recipe: named, want: job},
		{
			name: "input_and_no_quote", about: "the input is here, and the quote that says which one was run is not", recipe: unseen,
			want: states{
				receipts.ClaimJob: receipts.NotProvable, receipts.ClaimResult: receipts.NotProvable,
				receipts.ClaimAmount: receipts.NotProvable, receipts.ClaimInvoiceCommits: receipts.NotProvable,
			},
		},
		{name: "valid_chained", about: "the input is the result of another request", recipe: fedBy(byJob, good)},
		{
			name: "valid_chained_elsewhere", about: "the input is another provider's result, which the request names",
			recipe: fedBy(append(byJob, xOnly(stranger)), inputOf(stranger, nil)),
		},
		{name: "valid_chained_event", about: "the input is an event", recipe: fedBy([]string{"i", post.ID, "event"}, post)},
		{
			name: "input_absent", about: "the input is another event, which is not in the bundle",
			recipe: fedBy(byJob), want: states{receipts.ClaimJob: receipts.NotProvable, receipts.ClaimResult: receipts.NotProvable},
		},
		{name: "input_of_a_stranger", about: "the input is a result by somebody else", recipe: fedBy(byJob, inputOf(stranger, nil)), want: job},
		{
			name: "input_of_another_request", about: "the input is the result of another request than the one named",
			recipe: fedBy(byJob, inputOf(provider, func(ev *receipts.Event) { ev.Tags[0][1] = strings.Repeat("8", 64) })), want: job,
		},
		{name: "input_of_another_kind", about: "the input is no result", recipe: fedBy(byJob, inputOf(provider, func(ev *receipts.Event) { ev.Kind = 7000 })), want: job},
		{name: "input_forged", about: "the input's content is not what was signed", recipe: fedBy(byJob, forged), want: job},
		{name: "input_sealed", about: "the input is sealed", recipe: fedBy(byJob, inputOf(provider, func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"commitment", "x"}) })), want: job},
		{
			name: "input_private", about: "the input is a message to one reader",
			recipe: fedBy([]string{"i", inputOf(stranger, private).ID, "event"}, inputOf(stranger, private)), want: job,
		},
		{name: "input_twice", about: "more inputs than the request names", recipe: twice, want: job},
		{name: "input_not_named", about: "an input that the request does not name", recipe: loose, want: job},
		{name: "input_no_id", about: "the request names an input by no id", recipe: fedBy([]string{"i", "x", "job"}), want: job},
	}
}

func private(ev *receipts.Event) { ev.Kind = 14 }
