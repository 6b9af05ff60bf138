package message

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/hashing"
)

// asking is a gate that lets everybody in and notes what it asks the journal.
func asking(refs *[]string) Gate {
	return Gate{
		Known: func(string) bool { return true },
		Now:   func() time.Time { return noon },
		Holds: func(_ context.Context, session, ref string) (bool, error) {
			*refs = append(*refs, session+" "+ref)
			return true, nil
		},
	}
}

func TestJournalIsAskedOncePerReference(t *testing.T) {
	var refs []string
	digest := hashing.Bytes([]byte("output"))
	record := func(entity, from string) any {
		return map[string]any{"entity": entity, "wasGeneratedBy": "a", "wasDerivedFrom": from}
	}
	doc := edit(t, example(t, "response"), "evidence.provenance", []any{
		record("GDP", "src-wb-001"), record(digest.Hex(), digest.String()), record(digest.String(), digest.Hex()),
	})
	if _, err := asking(&refs).Receive(t.Context(), []byte(doc)); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(refs, ","), "sess-abc123 src-wb-001,sess-abc123 "+digest.String(); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	refs = nil
	doc = edit(t, doc, "evidence.provenance", []any{record("GDP", digest.Hex())})
	if _, err := asking(&refs).Receive(t.Context(), []byte(doc)); err != nil || refs[1] != "sess-abc123 "+digest.String() {
		t.Errorf("asked for %v, %v", refs, err)
	}
}

func TestNoSecretHidesBetweenWindows(t *testing.T) {
	for end := redact.MaxText - 40; end < redact.MaxText+40; end += 10 {
		secret := " sk-abcdefghijklmnopqrst "
		doc := `{"a":"` + strings.Repeat("x", end-len(secret)) + secret + strings.Repeat("y", 100) + `"}`
		wantError(t, noSecret([]byte(doc)), SafetyViolation, "")
	}
}
