package message

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

func TestQuestionsAreForgotten(t *testing.T) {
	q := parse(t, example(t, "query"))
	p := newPending()
	asked := ask{of: q.To.AgentID, thread: "root", origin: q, until: q.Deadline()}
	for i := range maxPending {
		if err := p.add(strings.Repeat("x", i), asked, noon); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, p.add(q.ID, asked, noon), SourceError, "")
	if err := p.add(q.ID, asked, q.Deadline().Add(1)); err != nil || len(p.asks) != 1 {
		t.Errorf("%d questions, %v", len(p.asks), err)
	}
	if _, ok := p.take(q.ID, "somebody"); ok {
		t.Error("somebody answered for another")
	}
	if _, ok := p.take(q.ID, q.To.AgentID); !ok {
		t.Error("the question is lost")
	}
	if _, ok := p.take(q.ID, q.To.AgentID); ok {
		t.Error("a question was answered twice")
	}
}

// TestTheLastQuestionOfAThread is the one that the pipeline speaks of.
func TestTheLastQuestionOfAThread(t *testing.T) {
	q := parse(t, example(t, "query"))
	p := newPending()
	for _, id := range []string{"first", "second", "elsewhere"} {
		thread := pipeline.ThreadID("root")
		if id == "elsewhere" {
			thread = "root.other"
		}
		if err := p.add(id, ask{of: id, thread: thread, origin: q, until: q.Deadline()}, noon); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"second", "first", ""} {
		if got, ok := p.takeOn("root"); got.of != want || ok != (want != "") {
			t.Errorf("got %q, want %q", got.of, want)
		}
	}
}
