package receipts_test

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/receipts"
)

// signedDocument is one of the four documents that a bundle's proof rests on,
// and how an attacker with every key would put another text in its place:
// everything that is hashed or signed later is made to fit.
type signedDocument struct {
	name  string
	base  recipe
	of    func(made) []byte
	plant func(recipe, func([]byte) []byte) recipe
}

func signedDocuments() []signedDocument {
	return []signedDocument{
		{
			"receipt",
			recipe{},
			func(m made) []byte { return m.bundle.Receipt },
			func(r recipe, f func([]byte) []byte) recipe { r.receiptDoc = f; return r },
		},
		{
			"quote",
			recipe{},
			func(m made) []byte { return m.bundle.Quote },
			func(r recipe, f func([]byte) []byte) recipe { r.quoteDoc = f; return r },
		},
		{
			"acceptance",
			recipe{},
			func(m made) []byte { return []byte(m.accept.Content) },
			func(r recipe, f func([]byte) []byte) recipe {
				r.acceptEvent = func(ev *receipts.Event) { ev.Content = string(f([]byte(ev.Content))) }
				return r
			},
		},
		{
			"seal",
			recipe{seal: true},
			func(m made) []byte { return m.bundle.Seal },
			func(r recipe, f func([]byte) []byte) recipe { r.sealDoc = f; return r },
		},
	}
}

// forgedFields: each field of each document dropped, doubled, of another type,
// under a name in another case, and with the value of its neighbour.
func forgedFields() []scenario {
	var all []scenario
	for _, d := range signedDocuments() {
		honest := d.of(d.base.make())
		fields := decodeFields(honest)
		names := slices.Sorted(maps.Keys(fields))
		for i, name := range names {
			for _, forgery := range []struct {
				name, about string
				text        func() []byte
			}{
				{"dropped", "lacks", func() []byte { return encodeFields(names, fields, name, "") }},
				{"doubled", "has twice", func() []byte {
					return encodeFields(names, fields, name, quote(name)+":"+fields[name]+","+quote(name)+":"+fields[name])
				}},
				{"retyped", "has with a value of another type", func() []byte {
					return encodeFields(names, fields, name, quote(name)+":"+retyped(fields[name]))
				}},
				{"renamed", "has under a name in another case", func() []byte {
					return encodeFields(names, fields, name, quote(strings.ToUpper(name[:1])+name[1:])+":"+fields[name])
				}},
				{"swapped", "has with the value of its neighbour", func() []byte {
					j := neighbour(names, fields, i)
					changed := maps.Clone(fields)
					changed[name], changed[names[j]] = fields[names[j]], fields[name]
					return encodeFields(names, changed, "", "")
				}},
			} {
				text := forgery.text()
				if forgery.name == "swapped" && bytes.Equal(text, honest) {
					continue // no neighbour has another value of its type
				}
				all = append(all, scenario{
					name: d.name + "_" + name + "_" + forgery.name, about: "what the " + d.name + " " + forgery.about + ": " + name,
					recipe: d.plant(d.base, func([]byte) []byte { return text }), measured: true,
				})
			}
			if isInteger(fields[name]) {
				for suffix, number := range map[string]string{"float": fields[name] + ".0", "exponent": fields[name] + "e0"} {
					text := encodeFields(names, fields, name, quote(name)+":"+number)
					all = append(all, scenario{
						name: d.name + "_" + name + "_" + suffix, about: "what the " + d.name + " has as a float: " + name,
						recipe: d.plant(d.base, func([]byte) []byte { return text }), measured: true,
					})
				}
			}
		}
	}
	return all
}

func quote(s string) string { return string(must(json.Marshal(s))) }

// decodeFields returns the fields of a document with their own text.
func decodeFields(doc []byte) map[string]string {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(doc, &raw); err != nil {
		panic(err)
	}
	fields := map[string]string{}
	for name, text := range raw {
		fields[name] = string(text)
	}
	return fields
}

// encodeFields writes the fields in their order; in the place of one of them
// comes the text instead, or nothing.
func encodeFields(names []string, fields map[string]string, one, instead string) []byte {
	var parts []string
	for _, name := range names {
		switch {
		case name != one:
			parts = append(parts, quote(name)+":"+fields[name])
		case instead != "":
			parts = append(parts, instead)
		}
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

func retyped(value string) string {
	switch value[0] {
	case '"':
		return "[" + value + "]"
	case '{', '[':
		return quote(value)
	case 'n':
		return "false"
	}
	return `"` + value + `"`
}

func isInteger(value string) bool { return value[0] >= '0' && value[0] <= '9' }

// neighbour is the next field with another value of the same form.
func neighbour(names []string, fields map[string]string, i int) int {
	form := func(v string) string {
		return string(v[0]) + map[bool]string{true: "digest"}[strings.HasPrefix(v, `"sha256:`)]
	}
	for k := 1; k < len(names); k++ {
		j := (i + k) % len(names)
		if mine, its := fields[names[i]], fields[names[j]]; form(mine) == form(its) && mine != its {
			return j
		}
	}
	return i
}

// forgedOrder: what has an order is signed and hashed in another one.
func forgedOrder() []scenario {
	return []scenario{
		{
			name: "result_runs_reordered", about: "the runs of the result are not in the order of the commands",
			recipe: recipe{output: func(out map[string]any) { slices.Reverse(out["runs"].([]any)) }}, want: failed(receipts.ClaimResult),
		},
		{
			name: "result_artifacts_reordered", about: "the artifacts are in another order than in the output that was receipted",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				b.Result = recipe{output: func(out map[string]any) { slices.Reverse(out["artifacts"].([]any)) }}.make().bundle.Result
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "replay_lines_reordered", about: "two lines of the record have changed places",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				lines := bytes.SplitAfter(b.Replay, []byte("\n"))
				lines[6], lines[9] = lines[9], lines[6]
				b.Replay = bytes.Join(lines, nil)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_integer_as_float", about: "the record spells an integer as a float, and everything commits to it",
			recipe: recipe{replay: func(file []byte) []byte {
				return bytes.Replace(file, []byte(`"iterations":1,`), []byte(`"iterations":1.0,`), 1)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_not_canonical", about: "a line of the record has a space, and everything commits to it",
			recipe: recipe{replay: func(file []byte) []byte {
				return bytes.Replace(file, []byte(`"event":"PlanStart"`), []byte(`"event": "PlanStart"`), 1)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_bare_digest", about: "the record has a digest without its prefix, and everything commits to it",
			recipe: recipe{replay: func(file []byte) []byte {
				return bytes.Replace(file, []byte(`"plan_hash":"sha256:`), []byte(`"plan_hash":"`), 1)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_cut_mid_line", about: "the record ends in the middle of a line",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Replay = b.Replay[:len(b.Replay)-20] }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "everything_resigned_by_a_stranger", about: "a stranger made the whole bundle anew with a key of its own",
			recipe: recipe{provider: person("stranger")}, want: failed(receipts.ClaimSignature),
		},
		{
			name: "chain_gap", about: "the chain goes on two numbers after the receipt before",
			recipe: recipe{receipt: func(r *receipts.Receipt) { r.Sequence = 4 }}, want: failed(receipts.ClaimChain),
		},
	}
}

// Every bit of the receipt and of its event counts; what they hash is covered
// by TestEveryByteCounts.
func TestEveryBitOfTheReceipt(t *testing.T) {
	m := recipe{}.make()
	honest := &receipts.Bundle{Receipt: m.bundle.Receipt, ReceiptEvent: m.bundle.ReceiptEvent}
	if got := receipts.Verify(honest, pins()).Claim(receipts.ClaimSignature); got.State != receipts.Proved {
		t.Fatalf("the honest receipt: %s", got.Reason)
	}
	for bit, doc := range flips(honest.Receipt) {
		if got := receipts.Verify(&receipts.Bundle{Receipt: doc, ReceiptEvent: honest.ReceiptEvent}, pins()).Claim(receipts.ClaimSignature); got.State == receipts.Proved {
			t.Fatalf("bit %d of the receipt is another, and the signature is proved", bit)
		}
	}
	for bit, doc := range flips(honest.ReceiptEvent) {
		ev, err := receipts.ParseEvent(doc, len(doc))
		if err == nil {
			_, err = receipts.ParseReceiptEvent(ev)
		}
		if err == nil {
			t.Fatalf("bit %d of the event is another, and it is read", bit)
		}
	}
}

// flips yields a document with each of its bits flipped.
func flips(doc []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for bit := range len(doc) * 8 {
			spoiled := bytes.Clone(doc)
			spoiled[bit/8] ^= 1 << (bit % 8)
			if !yield(bit, spoiled) {
				return
			}
		}
	}
}
