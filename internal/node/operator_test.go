package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/provider"
)

func emptyNode(t *testing.T) *Node {
	t.Helper()
	return New(config.In(t.TempDir()), "test", slog.New(slog.DiscardHandler))
}

// TestAdmission: the operator's word counts for a provider that is started later, and one
// that cannot be read takes no jobs.
func TestAdmission(t *testing.T) {
	a := emptyNode(t).Admission()
	by := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		do   func() error
		word provider.Admission
		by   time.Time
		why  string
	}{
		{func() error { return nil }, provider.AdmissionOpen, time.Time{}, ""},
		{func() error { return a.Set(provider.AdmissionOpen, time.Time{}) }, provider.AdmissionOpen, time.Time{}, ""},
		{func() error { return a.Set(provider.AdmissionPaused, time.Time{}) }, provider.AdmissionPaused, time.Time{}, ""},
		{func() error { return a.Set(provider.AdmissionDraining, by) }, provider.AdmissionDraining, by, ""},
		{func() error { return a.Set(provider.AdmissionDraining, time.Time{}) }, provider.AdmissionDraining, time.Time{}, ""},
		{func() error { return a.pause("another node sells") }, provider.AdmissionPaused, time.Time{}, "another node sells"},
		{func() error { return os.WriteFile(a.file, []byte("opne\n"), 0o600) }, provider.AdmissionPaused, time.Time{}, ""},
		{func() error { return os.WriteFile(a.file, nil, 0o600) }, provider.AdmissionPaused, time.Time{}, ""},
		{func() error { return a.Set(provider.AdmissionOpen, time.Time{}) }, provider.AdmissionOpen, time.Time{}, ""},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if a.Word() != step.word || !a.drainBy().Equal(step.by) || a.PausedWhy() != step.why {
			t.Errorf("%s by %v because %q, want %+v", a.Word(), a.drainBy(), a.PausedWhy(), step)
		}
	}
}

// TestPolicyPin: a pin holds until it is taken away, and one that is damaged is no pin of
// something else.
func TestPolicyPin(t *testing.T) {
	p := emptyNode(t).PolicyPin()
	if got, err := p.Read(); got != nil || err != nil {
		t.Errorf("before: %v, %v", got, err)
	}
	if err := p.Remove(); err != nil {
		t.Errorf("nothing is pinned: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		t.Fatal(err)
	}
	id := hashing.Bytes([]byte("policy"))
	if err := p.Set(id); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Read(); err != nil || got == nil || *got != id {
		t.Errorf("pinned %v, %v", got, err)
	}
	if err := os.WriteFile(p.file, []byte(id.String()[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Read(); err == nil || got != nil {
		t.Errorf("damaged: %v, %v", got, err)
	}
	if err := p.Remove(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Read(); got != nil || err != nil {
		t.Errorf("after: %v, %v", got, err)
	}
}
