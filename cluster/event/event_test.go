package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// spec is an example of the specification, byte for byte.
func spec(t testing.TB, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("testdata", "spec", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func sameDocument(t *testing.T, got any, want []byte) {
	t.Helper()
	text, err := hashing.CanonicalValue(got)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := hashing.Canonical(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, canonical) {
		t.Fatalf("written again:\n%s\nwas\n%s", text, canonical)
	}
}

func envelope() Envelope {
	now := At(time.Date(2026, 2, 25, 16, 22, 10, 123_000_000, time.UTC))
	return Envelope{
		EventID: NewID("evt_", now.Time), Seq: 1, Kind: KindMessage, SourceNodeID: "vps-jane", SourceAgentID: "architect",
		CorrID: "corr_1", CreatedAt: now, ExpiresAt: At(now.Add(time.Hour)), Trace: Trace{Attempt: 1},
	}
}

// TestExamplesOfTheSpecification: every example is read by the strict reader and written
// again as it was. The example of the envelope has an empty payload, which is no message,
// so it gets one.
func TestExamplesOfTheSpecification(t *testing.T) {
	requirements.Covers(t, "AN-1.2", "AN-1.3", "AN-1.4", "AN-3.1", "AN-4.1", "AN-4.5", "AN-4.9", "AN-4.10", "AN-4.11", "AN-4.12", "AN-5.1", "AN-6.3", "AN-7.4", "AN-2.1", "AN-2.6", "AN-8.5")

	var e Envelope
	if err := hashing.Unmarshal(spec(t, "envelope"), &e); err != nil {
		t.Fatal(err)
	}
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	sameDocument(t, e, spec(t, "envelope"))
	whole := bytes.Replace(spec(t, "envelope"), []byte(`{},`), append(spec(t, "message"), ','), 1)
	parsed, err := Parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, parsed.Envelope, whole)

	for name, kind := range map[string]Kind{
		"message": KindMessage, "task_create": KindTaskCreate, "task_accept": KindTaskAccept, "task_update": KindTaskUpdate,
		"task_complete": KindTaskComplete, "task_failed": KindTaskFailed, "ack": KindAck, "skill_distribution": KindTaskCreate,
	} {
		p, err := ParsePayload(kind, spec(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sameDocument(t, p, spec(t, name))
	}

	catalog, err := ParseRecord[Catalog](spec(t, "catalog"))
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, catalog, spec(t, "catalog"))
	cursor, err := ParseRecord[Cursor](spec(t, "cursor"))
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, cursor, spec(t, "cursor"))
	for name, value := range map[string]any{"index": new(Index), "review": new(Review)} {
		if err := hashing.Unmarshal(spec(t, name), value); err != nil {
			t.Fatal(err)
		}
		sameDocument(t, value, spec(t, name))
	}
}

// TestPayloadsThatAreRefused: each line of payloads names the field that is wrong.
func TestPayloadsThatAreRefused(t *testing.T) {
	requirements.Covers(t, "AN-3.2", "AN-4.3", "AN-4.8", "AN-5.2", "AN-9.L1.1", "ANX-4")
	long := strings.Repeat("x", 10_001)
	for _, c := range []struct {
		kind        Kind
		doc, field  string
		code        string
		cut, insert string // of the example, in place of doc
	}{
		{kind: KindMessage, cut: `["mbp-jane", "vps-jane"]`, insert: `[]`, field: "toAgents"},
		{kind: KindMessage, cut: `"toAgents": ["mbp-jane", "vps-jane"],`, insert: ``, field: "toAgents"},
		{kind: KindMessage, cut: `["mbp-jane", "vps-jane"]`, insert: `["all","vps-jane"]`, field: "toAgents"},
		{kind: KindMessage, cut: `["mbp-jane", "vps-jane"]`, insert: `["vps-jane","vps-jane"]`, field: "toAgents"},
		{kind: KindMessage, cut: `"normal"`, insert: `"urgent"`, field: "priority"},
		{kind: KindMessage, cut: `Build completed.`, insert: long, field: "body"},
		{kind: KindTaskCreate, cut: `["cap.release.checklist"]`, insert: `[]`, field: "toAgents", code: MissingRouteFields},
		{kind: KindTaskCreate, cut: `["cap.release.checklist"]`, insert: `["release"]`, field: "requiredCapabilities"},
		{kind: KindTaskCreate, cut: `2026-02-25T20:00:00.000Z`, insert: `2026-02-25T20:00:00Z`, field: "payload"},
		{kind: KindTaskAccept, cut: `"etaAt": "2026-02-25T18:00:00.000Z",`, insert: ``, field: "etaAt"},
		{kind: KindTaskUpdate, cut: `60`, insert: `101`, field: "progress"},
		{kind: KindTaskUpdate, cut: `in_progress`, insert: `done`, field: "status"},
		{kind: KindTaskFailed, cut: `dependency_missing`, insert: `bad_luck`, field: "failureClass"},
		{kind: KindTaskComplete, cut: `"completedAt"`, insert: `"more":1,"completedAt"`, field: "payload"},
		{kind: KindAck, cut: `"accepted"`, insert: `"seen"`, field: "ackType"},
		{kind: KindAck, cut: `"task_create"`, insert: `"ack"`, field: "refKind"},
		{kind: KindReply, doc: `{"refEventId":"","body":""}`, field: "refEventId"},
		{kind: KindDeadLetter, doc: `{"refEventId":"e","refKind":"message","toAgentId":"a","attempts":0,"reason":""}`, field: "attempts"},
		{kind: "order", doc: `{}`, field: "kind"},
	} {
		doc := c.doc
		if doc == "" {
			doc = strings.Replace(string(spec(t, string(c.kind))), c.cut, c.insert, 1)
		}
		_, err := ParsePayload(c.kind, []byte(doc))
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Field != c.field || refusal.Status != 400 {
			t.Errorf("%s with %.40q for %s: %v, want field %s", c.kind, c.insert, c.cut, err, c.field)
			continue
		}
		if want := c.code; want != "" && refusal.Code != want {
			t.Errorf("%s: code %s, want %s", c.kind, refusal.Code, want)
		}
	}

	seconds := strings.Replace(string(spec(t, "task_accept")), `"etaAt": "2026-02-25T18:00:00.000Z"`, `"etaSeconds": 60`, 1)
	if _, err := ParsePayload(KindTaskAccept, []byte(seconds)); err != nil {
		t.Errorf("etaSeconds in place of etaAt: %v", err)
	}
}

func TestEnvelopesThatAreRefused(t *testing.T) {
	requirements.Covers(t, "AN-1.1", "AN-1.7")
	message := Message{ToAgents: []string{"writer"}, Priority: Normal}
	ack := Ack{RefEventID: "evt_1", RefKind: KindMessage, AckType: Accepted, AckedByNodeID: "a", AckedByAgentID: "b", AckedAt: At(time.Unix(1, 0))}
	for _, c := range []struct {
		name   string
		field  string
		body   any
		change func(*Envelope)
	}{
		{"no id", "eventId", message, func(e *Envelope) { e.EventID = "" }},
		{"an id with a space", "eventId", message, func(e *Envelope) { e.EventID = "evt 1" }},
		{"a node with a dot", "sourceNodeId", message, func(e *Envelope) { e.SourceNodeID = "a.b" }},
		{"everybody as the source", "sourceAgentId", message, func(e *Envelope) { e.SourceAgentID = "all" }},
		{"no creation", "createdAt", message, func(e *Envelope) { e.CreatedAt = Time{} }},
		{"expired before it was made", "expiresAt", message, func(e *Envelope) { e.ExpiresAt = e.CreatedAt }},
		{"a life of a year", "expiresAt", message, func(e *Envelope) { e.ExpiresAt = At(e.CreatedAt.AddDate(1, 0, 0)) }},
		{"a hash that is none", "payloadRef", message, func(e *Envelope) { e.PayloadRef = "sha256:12" }},
		{"an acknowledgement without corrId", "corrId", ack, func(e *Envelope) { e.Kind, e.CorrID = KindAck, "" }},
		{"a reply without corrId", "corrId", Reply{RefEventID: "evt_1"}, func(e *Envelope) { e.Kind, e.CorrID = KindReply, "" }},
		{"progress without corrId", "corrId", TaskUpdate{TaskID: "t", Status: "in_progress"}, func(e *Envelope) { e.Kind, e.CorrID = KindTaskUpdate, "" }},
	} {
		e := envelope()
		c.change(&e)
		_, err := New(e, c.body)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Field != c.field {
			t.Errorf("%s: %v, want field %s", c.name, err, c.field)
		}
	}

	if _, err := New(envelope(), message); err != nil {
		t.Fatalf("the unchanged envelope: %v", err)
	}
	if _, err := Parse(make([]byte, MaxSize+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Fatalf("an oversized event: %v", err)
	}
	e := envelope()
	e.Payload, _ = json.Marshal(message)
	e.Seq, e.Trace.Attempt = 0, 0
	doc, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(doc); err == nil {
		t.Fatal("an event without a sequence was taken")
	}
}

func TestCatalogBounds(t *testing.T) {
	requirements.Covers(t, "AN-2.5")
	for eta, want := range map[int]bool{29: false, 30: true, 86400: true, 86401: false} {
		doc := bytes.Replace(spec(t, "catalog"), []byte("900"), fmt.Append(nil, eta), 1)
		if _, err := ParseRecord[Catalog](doc); (err == nil) != want {
			t.Errorf("a default eta of %d s: %v", eta, err)
		}
	}
	if _, err := ParseRecord[Catalog](make([]byte, MaxRecord+1)); err == nil {
		t.Error("an oversized record was taken")
	}
}

func TestIDs(t *testing.T) {
	requirements.Covers(t, "AN-1.5")
	seen, now := map[string]bool{}, time.Now()
	for range 10_000 {
		id := NewID("evt_", now)
		if seen[id] || len(id) != 30 || !anyID.MatchString(id) {
			t.Fatalf("id %s: it was made before, or has the wrong form", id)
		}
		seen[id] = true
	}
	if earlier, later := NewID("", now), NewID("", now.Add(time.Millisecond)); earlier >= later {
		t.Fatalf("%s does not sort before %s", earlier, later)
	}
	e := envelope()
	e.EventID, e.Trace.Attempt = "evt_1", 3
	if e.MessageID() != "evt_1:3" {
		t.Fatalf("message id %s", e.MessageID())
	}
}

// FuzzParse: what is read can be written and is then read as the same.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, doc []byte) {
		e, err := Parse(doc)
		if err != nil {
			if !errors.As(err, new(*Refusal)) {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		text, err := Encode(&e.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v: written as %s", err, text)
		}
		sameDocument(t, again.Envelope, text)
	})
}

func FuzzRecord(f *testing.F) {
	f.Fuzz(func(t *testing.T, doc []byte) {
		if c, err := ParseRecord[Catalog](doc); err == nil {
			sameDocument(t, c, doc)
		}
		if c, err := ParseRecord[Cursor](doc); err == nil {
			sameDocument(t, c, doc)
		}
		_, _ = ParseRecord[AgentRecord](doc)
	})
}
