package kinds_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

// readExample reads an event of a document with the reader that a node has for it.
func readExample(ev nostr.Event, of domain.Domain) error {
	content, err := []byte(ev.Content), error(nil)
	switch of {
	case domain.Quote:
		_, err = receipts.ParseQuote(content)
	case domain.Acceptance:
		_, err = receipts.ParseAcceptance(content)
	case domain.Receipt:
		_, err = receipts.ParseReceipt(content)
	case domain.Closing:
		_, err = receipts.ParseClosing(content)
	case domain.Pruned:
		_, err = receipts.ParsePruning(content)
	case domain.Reveal:
		_, err = receipts.ParseReveal(content)
	case domain.Request:
		if _, err = receipts.TermsOf(ev.Tags); err == nil && !hasTag(ev, "encrypted") {
			_, err = receipts.RequestOf(ev.Tags)
		}
	case domain.Pointer:
		_, err = receipts.ParsePointerEvent(receipts.Event{
			ID: ev.ID, PubKey: ev.PubKey, CreatedAt: int64(ev.CreatedAt), Kind: ev.Kind, Tags: tagsOf(ev), Content: ev.Content, Sig: ev.Sig,
		})
	case domain.KeyChange, domain.KeyAcceptance:
		_, err = receipts.ParseKeyStatement(receipts.Event{
			ID: ev.ID, PubKey: ev.PubKey, CreatedAt: int64(ev.CreatedAt), Kind: ev.Kind, Tags: tagsOf(ev), Content: ev.Content, Sig: ev.Sig,
		})
	case domain.Result:
		if hasTag(ev, "commitment") {
			_, err = receipts.CommitmentOf(receipts.Event{Tags: tagsOf(ev)})
			break
		}
		err = hashing.Check(content)
	}
	return err
}

func hasTag(ev nostr.Event, name string) bool {
	return slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return t[0] == name })
}

func tagsOf(ev nostr.Event) (all [][]string) {
	for _, t := range ev.Tags {
		all = append(all, t)
	}
	return all
}

// TestExamples: docs/protocol/examples.md shows at least one event for each kind that
// a node signs. Each has its own id and a valid signature, one of the domains that
// its kind has, and is what the reader of that document takes.
func TestExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol/examples.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[int]bool{}
	domains := map[domain.Domain]bool{}
	for i, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		var ev nostr.Event
		if err := json.Unmarshal(m[1], &ev); err != nil {
			t.Errorf("example %d: %v", i+1, err)
			continue
		}
		shown[ev.Kind] = true
		if ok, err := ev.CheckSignature(); !ok || err != nil || !ev.CheckID() {
			t.Errorf("example %d, kind %d: id and signature are not its own (%v)", i+1, ev.Kind, err)
		}

		at := slices.IndexFunc(kinds.Table(), func(e kinds.Event) bool { return e.Kind == ev.Kind })
		if at < 0 {
			t.Errorf("example %d: kind %d is not in the table", i+1, ev.Kind)
			continue
		}
		of, err := domain.Of(ev.Tags)
		if want := kinds.Table()[at].Domains; err != nil || len(want) > 0 && !slices.Contains(want, of) || len(want) == 0 && of != "" {
			t.Errorf("example %d, kind %d: domain %q (%v), the table has %v", i+1, ev.Kind, of, err, want)
		}
		domains[of] = true
		if err := readExample(ev, of); err != nil {
			t.Errorf("example %d, kind %d, %s: %v", i+1, ev.Kind, of, err)
		}
	}

	for _, e := range kinds.Table() {
		if e.Kind != kinds.RelayLogin && e.Kind != kinds.BlobLogin && !shown[e.Kind] {
			t.Errorf("no example of kind %d", e.Kind)
		}
		for _, of := range e.Domains {
			if of != domain.Encrypted && !domains[of] {
				t.Errorf("no example of %s, kind %d", of, e.Kind)
			}
		}
	}
}
