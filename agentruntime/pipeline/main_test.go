package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a journal and audit log that only grows.
type memory struct {
	mu      sync.Mutex
	entries []Entry
	rejects []Reject
	fail    error
}

func (m *memory) Append(_ context.Context, entries ...Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, e := range entries {
		e.ID = uint64(len(m.entries) + 1)
		m.entries = append(m.entries, e)
	}
	return nil
}

func (m *memory) Reject(_ context.Context, r Reject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejects = append(m.rejects, r)
}

func (m *memory) reasons() []RejectReason {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []RejectReason
	for _, r := range m.rejects {
		all = append(all, r.Reason)
	}
	return all
}

// world builds a pipeline with sensible rest.
type world struct {
	*Pipeline
	log *memory
}

func newWorld(t testing.TB, cfg Config) world {
	t.Helper()
	log := &memory{}
	cfg.Journal, cfg.Audit = log, log
	if cfg.Profiles == nil {
		var all []string
		for _, h := range cfg.Handlers {
			all = append(all, h.Name)
		}
		cfg.Profiles = []Profile{{Name: "main", Handlers: all}}
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return world{p, log}
}

func ingress(tag, payload string) Ingress {
	return Ingress{Namespace: "urn:test:v1", Tag: tag, Payload: []byte(payload), Thread: "root", Profile: "main", Sender: "outside"}
}

// always answers every message the same way.
func always(r Response) HandleFunc {
	return func(context.Context, Payload, Context) (Response, error) { return r, nil }
}

func echo(name string, tags ...string) Handler {
	return Handler{Name: name, Description: "echoes", Tags: tags, Outputs: []string{"Echoed"}, Handle: func(_ context.Context, p Payload, _ Context) (Response, error) {
		return Reply("Echoed", p.Bytes), nil
	}}
}

// exactly accepts one payload.
func exactly(want string) Validate {
	return func(payload []byte) error {
		if string(payload) != want {
			return errors.New("is something else")
		}
		return nil
	}
}

func wantReasons(t *testing.T, log *memory, want ...RejectReason) {
	t.Helper()
	if got := log.reasons(); !slices.Equal(got, want) {
		t.Errorf("audit has %v, want %v", got, want)
	}
}
