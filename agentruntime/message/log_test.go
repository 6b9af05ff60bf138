package message

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func (w *world) lines(t *testing.T) []LogLine {
	t.Helper()
	lines, err := Log(w.entries, w.content)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestEveryMessageIsLoggedOncePerDirection(t *testing.T) {
	requirements.Covers(t, "YE-L.1", "YE-L.2", "YE-O.4")
	w := newWorld(t)
	w.connect = func(ctx context.Context, m, origin Message) (Action, error) {
		w.advance(1500 * time.Millisecond)
		return w.getData(ctx, m, origin)
	}
	m := w.ask(t, example(t, "query"))
	if m.Type != TypeResponse {
		t.Fatalf("answer is %+v", m)
	}
	lines := w.lines(t)
	q := parse(t, example(t, "query"))
	for i, want := range []LogLine{
		{Direction: Received, FromAgent: brain.AgentID, ToAgent: analyst.AgentID, Type: TypeQuery, LatencyMs: 6000},
		{Direction: Sent, FromAgent: analyst.AgentID, ToAgent: connector.AgentID, Type: TypeCommand},
		{Direction: Received, FromAgent: analyst.AgentID, ToAgent: connector.AgentID, Type: TypeCommand},
		{Direction: Sent, FromAgent: connector.AgentID, ToAgent: analyst.AgentID, Type: TypeResponse, LatencyMs: 1500, EvidenceCount: 1, ConfidenceScore: 85},
		{Direction: Received, FromAgent: connector.AgentID, ToAgent: analyst.AgentID, Type: TypeResponse, EvidenceCount: 1, ConfidenceScore: 85},
		{Direction: Sent, FromAgent: analyst.AgentID, ToAgent: brain.AgentID, Type: TypeResponse, LatencyMs: 1500, EvidenceCount: 1, ConfidenceScore: 85},
	} {
		want.Status, want.Timestamp, want.MessageID = StatusSuccess, w.entries[i].Timestamp, lines[i].MessageID
		if lines[i] != want {
			t.Errorf("line %d is\n%+v, want\n%+v", i, lines[i], want)
		}
	}
	if len(lines) != 6 || lines[0].MessageID != q.ID || lines[5].MessageID != m.ID || lines[1].MessageID != lines[2].MessageID {
		t.Errorf("lines are %+v", lines)
	}
}

func TestLogLineMembers(t *testing.T) {
	requirements.Covers(t, "YE-L.2")
	doc, err := json.Marshal(LogLine{})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(doc, &members); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"confidenceScore", "direction", "evidenceCount", "fromAgent", "latencyMs", "messageId", "status", "timestamp", "toAgent", "type",
	}
	if got := slices.Sorted(maps.Keys(members)); !slices.Equal(got, want) {
		t.Errorf("members are %v", got)
	}
}

func TestLogStatus(t *testing.T) {
	requirements.Covers(t, "YE-L.2")
	w := newWorld(t)
	w.status = http.StatusNotFound
	w.ask(t, example(t, "query"))
	// Everybody but the connector's error itself was answered with an error.
	for _, line := range w.lines(t) {
		if line.Status != StatusError {
			t.Errorf("line %+v", line)
		}
	}
	late := newWorld(t)
	late.advance(time.Minute)
	late.ask(t, example(t, "query"))
	for _, line := range late.lines(t) {
		if line.Status != StatusTimeout {
			t.Errorf("line %+v", line)
		}
	}
	if len(late.lines(t)) != 2 {
		t.Errorf("lines are %+v", late.lines(t))
	}
}

func TestLogPassesOverOtherPayloads(t *testing.T) {
	entries := []pipeline.Entry{{PayloadTag: "oa.sandbox_run.v1"}, {PayloadTag: TypeQuery.Tag(), PayloadHash: hashing.Bytes(nil)}}
	none := func(hashing.Digest) ([]byte, error) { return nil, errors.New("pruned") }
	if lines, err := Log(entries[:1], none); err != nil || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
	if _, err := Log(entries, none); err == nil {
		t.Error("a message without content was passed over")
	}
}
