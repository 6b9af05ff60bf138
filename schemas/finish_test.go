package schemas

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestFinishingIsRepairDoneOnce: the one thing that the node adds to what an
// agent says is its own key. Done again it changes nothing, and a result that has
// it is left as it is.
func TestFinishingIsRepairDoneOnce(t *testing.T) {
	requirements.Covers(t, "AP-2.3.4", "AP-2.3.5")
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(minimalResults))).Draw(rt, "type")
		key := strings.Repeat(rapid.StringMatching(`[0-9a-f]`).Draw(rt, "digit"), 64)
		var doc map[string]any
		if err := json.Unmarshal([]byte(minimalResults[id]), &doc); err != nil {
			rt.Fatal(err)
		}
		by := doc["provenance"].(map[string]any)
		by["model_id"] = rapid.StringMatching(`[a-z<&"é]{1,20}`).Draw(rt, "model")
		if by["provider_pubkey"] = key; rapid.Bool().Draw(rt, "without") {
			delete(by, "provider_pubkey")
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		s, _ := Lookup(string(id))
		once, err := s.FinishResult(raw, key)
		if err != nil {
			rt.Fatal(err)
		}
		twice, err := s.FinishResult(once.Canonical, key)
		if err != nil || !bytes.Equal(twice.Canonical, once.Canonical) {
			rt.Fatalf("%s became %s, %v", once.Canonical, twice.Canonical, err)
		}
		if valid, err := s.ParseResult(raw); err == nil && !bytes.Equal(valid.Canonical, once.Canonical) {
			rt.Fatalf("the valid %s became %s", valid.Canonical, once.Canonical)
		}
	})
}
