package message

import (
	"strings"
	"testing"
)

func TestQuestionsAreForgotten(t *testing.T) {
	q := parse(t, example(t, "query"))
	p := newPending()
	for i := range maxPending {
		one := q
		one.ID = strings.Repeat("x", i)
		if err := p.add(one, q, noon); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, p.add(q, q, noon), SourceError, "")
	if err := p.add(q, q, q.Deadline().Add(1)); err != nil || len(p.asks) != 1 {
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
