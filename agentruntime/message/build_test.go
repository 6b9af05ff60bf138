package message

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestReplyKeepsTheConversation(t *testing.T) {
	requirements.Covers(t, "YE-T.6", "YE-S.5", "YE-O.2")
	q := parse(t, example(t, "query"))
	q.Payload.Language = Arabic
	r, err := Reply(q, Response{Answer: "17"}, parse(t, example(t, "response")).Evidence, noon)
	if err != nil {
		t.Fatal(err)
	}
	if r.Context != q.Context || r.ReplyTo != q.ID || r.From != q.To || r.To != q.From || r.ID == q.ID || r.Type != TypeResponse || r.Payload.Language != Arabic {
		t.Errorf("reply is %+v", r)
	}
	if _, err := Encode(r); err != nil {
		t.Error(err)
	}
}

func TestRetryGrowsTheCount(t *testing.T) {
	requirements.Covers(t, "YE-S.12")
	m := parse(t, example(t, "query"))
	for want := 1; want <= maxRetries; want++ {
		again, err := m.Retry(noon.Add(time.Duration(want) * time.Second))
		if err != nil || again.RetryCount != want || again.ID != m.ID || !again.Timestamp.After(m.Timestamp) {
			t.Fatalf("retry %d is %+v, %v", want, again, err)
		}
		m = again
	}
	if _, err := Encode(m); err != nil {
		t.Error(err)
	}
	_, err := m.Retry(noon)
	wantError(t, err, ValidationFailed, "retryCount")
}

func TestErrorsFillRecoverable(t *testing.T) {
	requirements.Covers(t, "YE-E.8", "YE-O.5")
	q := parse(t, example(t, "query"))
	for _, row := range table() {
		m := q.Fail(&Error{Kind: row.Kind, Reason: "r"}, noon)
		f, err := ContentOf[Failure](m)
		if err != nil || f.Code != row.Code || f.Recoverable != row.Code.Recoverable() || m.ReplyTo != q.ID {
			t.Errorf("%s is %+v, %v", row.Kind, f, err)
		}
		if m.Priority != PriorityHigh || m.TTL != 60 || m.Context != q.Context {
			t.Errorf("%s is %+v", row.Kind, m)
		}
		if _, err := Encode(m); err != nil {
			t.Error(err)
		}
	}
}

func TestGapsHaveTheirTTL(t *testing.T) {
	a := Agent{"a", "a-1"}
	m, err := New(a, a, Gap{GapType: "missing_data", Indicator: "i"}, Context{}, noon)
	if err != nil || m.TTL != 3600 || m.Priority != PriorityLow {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = New(a, a, Query{Question: "\xff"}, Context{}, noon)
	wantError(t, err, ValidationFailed, "payload.content")
}
