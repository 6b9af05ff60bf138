package profile_test

import (
	"slices"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestProfiles: of a provider that may know NIP-90 alone more is taken than of another,
// until it has quoted; then both are held to the same.
func TestProfiles(t *testing.T) {
	typed, plain := profile.Of(purchase.Purchase{}), profile.Of(purchase.Purchase{Plain: true})
	paid := purchase.Purchase{Charge: purchase.Charge{Attempt: &purchase.Attempt{}}}
	quoted := purchase.Purchase{Charge: purchase.Charge{Quote: []byte("{}"), Attempt: &purchase.Attempt{}}}
	priced := nostr.Event{Tags: nostr.Tags{{"amount", "5000", "lnplay1"}}}
	bound := nostr.Event{Tags: nostr.Tags{{"amount", "5000", "lnplay1"}, {"quote_hash", "aa"}}}

	for name, tt := range map[string]struct{ typed, plain, wantTyped, wantPlain bool }{
		"boxes":                              {typed.Seals(), plain.Seals(), true, false},
		"an invoice alone":                   {typed.Bare(priced), plain.Bare(priced), false, true},
		"an invoice with the result":         {typed.BareResult(priced), plain.BareResult(priced), false, true},
		"an invoice with the quoted result":  {typed.BareResult(bound), plain.BareResult(bound), false, false},
		"a result without hashes, for free":  {typed.Unbound(purchase.Purchase{}, nostr.Event{}), plain.Unbound(purchase.Purchase{}, nostr.Event{}), true, true},
		"a result without hashes, priced":    {typed.Unbound(purchase.Purchase{}, priced), plain.Unbound(purchase.Purchase{}, priced), false, true},
		"a result without hashes, paid":      {typed.Unbound(paid, nostr.Event{}), plain.Unbound(paid, nostr.Event{}), false, true},
		"a result without hashes, quoted":    {typed.Unbound(quoted, nostr.Event{}), plain.Unbound(quoted, nostr.Event{}), false, false},
		"an output of no schema":             {typed.AnyOutput(paid), plain.AnyOutput(paid), false, true},
		"an output of no schema, quoted":     {typed.AnyOutput(quoted), plain.AnyOutput(quoted), false, false},
		"a receipt of what was never quoted": {typed.Receipts(paid.Charge), plain.Receipts(paid.Charge), false, true},
		"a receipt of what was quoted":       {typed.Receipts(quoted.Charge), plain.Receipts(quoted.Charge), true, true},
		"silence once the result is here":    {typed.EndsSilent(), plain.EndsSilent(), false, true},
	} {
		if tt.typed != tt.wantTyped || tt.plain != tt.wantPlain {
			t.Errorf("%s: %v of a typed provider, %v of a plain one", name, tt.typed, tt.plain)
		}
	}
}

// TestRequestOfEachProfile: a text goes untyped to a plain provider, and is then the job
// that its tags say; any other document goes the same way to both.
func TestRequestOfEachProfile(t *testing.T) {
	for id, doc := range map[schemas.ID]string{
		schemas.TextGeneration: `{"prompt":"say hello"}`,
		schemas.Embedding:      `{"texts":["twelve chars"]}`,
	} {
		s, ok := schemas.Lookup(string(id))
		if !ok {
			t.Fatalf("no schema %s", id)
		}
		req, err := s.ParseRequest([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}

		for _, plain := range []bool{false, true} {
			read, tags, err := profile.For(plain).Request(s, req)
			if err != nil {
				t.Fatal(err)
			}
			typed := slices.ContainsFunc(tags, func(tag nostr.Tag) bool { return len(tag) == 3 && tag[1] == "schema" })
			if want := !plain || id != schemas.TextGeneration; typed != want {
				t.Errorf("%s, plain %v: it names its schema: %v", id, plain, typed)
			}
			job, err := purchase.ReadJob(tags, "", nil)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			again, err := s.ParseRequest(job.Input)
			if err != nil || again.JobHash != read.JobHash {
				t.Errorf("%s, plain %v: the tags say another job: %v", id, plain, err)
			}
		}
	}
}
