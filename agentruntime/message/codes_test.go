package message

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestDataUnavailable(t *testing.T) {
	requirements.Covers(t, "YE-E.1", "YE-E.9", "YE-O.5")
	w := newWorld(t)
	w.status = http.StatusNotFound
	f := wantFailure(t, w.ask(t, example(t, "query")), parse(t, example(t, "query")), DataUnavailable)
	if !strings.Contains(f.Message, "no such indicator") {
		t.Errorf("failure is %+v", f)
	}
}

func TestSourceError(t *testing.T) {
	requirements.Covers(t, "YE-E.2", "YE-E.9")
	w := newWorld(t)
	w.status = http.StatusServiceUnavailable
	wantFailure(t, w.ask(t, example(t, "query")), parse(t, example(t, "query")), SourceError)
	w.bank.Close()
	wantFailure(t, w.ask(t, example(t, "query")), parse(t, example(t, "query")), SourceError)
}

func TestValidationFailed(t *testing.T) {
	requirements.Covers(t, "YE-E.3", "YE-E.9", "YE-V4")
	w := newWorld(t)
	q := parse(t, example(t, "query"))
	// The pipeline refuses what is malformed; the answer is a message all the same.
	wantFailure(t, w.ask(t, edit(t, example(t, "query"), "payload.content.question", 7)), q, ValidationFailed)
	if len(w.entries) != 0 || len(w.rejects) != 1 {
		t.Errorf("journal has %d entries, audit %d", len(w.entries), len(w.rejects))
	}
	f := wantFailure(t, w.ask(t, edit(t, example(t, "query"), "to.agentId", "nobody")), q, ValidationFailed)
	if !strings.Contains(string(f.Details), "to.agentId") {
		t.Errorf("failure is %+v", f)
	}
	stranger := pipeline.Ingress{
		Tag: TypeQuery.Tag(), Payload: []byte(edit(t, example(t, "query"), "from.agentId", "stranger")),
		Thread: "root", Profile: "main", Sender: "stranger",
	}
	m := w.deliver(t, stranger)
	if f, err := ContentOf[Failure](*m); err != nil || f.Code != ValidationFailed || !strings.Contains(string(f.Details), "from.agentId") {
		t.Errorf("failure is %+v, %v", f, err)
	}
	future := edit(t, example(t, "query"), "timestamp", noon.Add(maxAhead+time.Second).Format(time.RFC3339))
	wantFailure(t, w.ask(t, future), q, ValidationFailed)
}

func TestTimeout(t *testing.T) {
	requirements.Covers(t, "YE-S.11", "YE-E.4", "YE-E.9")
	q := parse(t, example(t, "query"))
	t.Run("arrives too late", func(t *testing.T) {
		w := newWorld(t)
		w.analyse = func(context.Context, Message, Message) (Action, error) {
			t.Error("a late message was processed")
			return nothing(), nil
		}
		w.advance(25 * time.Second) // 31 s after the message
		wantFailure(t, w.ask(t, example(t, "query")), q, Timeout)
	})
	t.Run("its peer takes too long", func(t *testing.T) {
		w := newWorld(t)
		w.connect = func(ctx context.Context, m, origin Message) (Action, error) {
			defer w.advance(time.Minute)
			return w.getData(ctx, m, origin)
		}
		wantFailure(t, w.ask(t, example(t, "query")), q, Timeout)
	})
	t.Run("its peer answers after the question has expired", func(t *testing.T) {
		w := newWorld(t)
		w.connect = func(ctx context.Context, m, origin Message) (Action, error) {
			w.advance(time.Minute)
			return w.getData(ctx, m, origin)
		}
		w.analyse = func(ctx context.Context, m, origin Message) (Action, error) {
			if m.Type == TypeResponse {
				t.Error("an answer to an expired question was processed")
			}
			return w.askForData(ctx, m, origin)
		}
		wantFailure(t, w.ask(t, example(t, "query")), q, Timeout)
	})
	t.Run("work outlasts it", func(t *testing.T) {
		w := newWorld(t)
		w.advance(q.Deadline().Sub(noon) - 50*time.Millisecond)
		w.analyse = func(ctx context.Context, m, origin Message) (Action, error) {
			<-ctx.Done()
			answer, err := Reply(origin, Gap{GapType: "g", Indicator: "i"}, Evidence{}, w.Now())
			return Answer(answer), err
		}
		wantFailure(t, w.ask(t, example(t, "query")), q, Timeout)
	})
}

func TestFabricationDetected(t *testing.T) {
	requirements.Covers(t, "YE-E.5", "YE-E.9", "M-10", "YEX-6")
	q := parse(t, example(t, "query"))
	entity := hashing.Bytes([]byte("made up")).String()
	chain := Chain{
		Sources: []Source{{ID: "s1", Name: "Bank"}}, Confidence: 99, Citations: []Citation{{Text: "GDP", Source: "s1"}},
		Provenance: []Provenance{{Entity: "GDP", WasGeneratedBy: connector.AgentID, WasDerivedFrom: "s1"}},
	}
	for name, c := range map[string]struct {
		chain Chain
		known []string
	}{
		"a source that the session never saw": {chain: chain},
		"a source of another session":         {chain: chain, known: []string{}},
		"a digest of nothing": {known: []string{"s1"}, chain: Chain{
			Sources: chain.Sources, Citations: chain.Citations, Provenance: []Provenance{{Entity: entity, WasGeneratedBy: "x"}},
		}},
		"derived from nothing": {known: []string{"s1"}, chain: Chain{
			Sources: chain.Sources, Citations: chain.Citations, Provenance: []Provenance{{Entity: "GDP", WasGeneratedBy: "x", WasDerivedFrom: "s2"}},
		}},
		"no source at all": {chain: Chain{Confidence: 99}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.remember("sess-other", "s1", entity)
			w.remember(q.Context.SessionID, c.known...)
			w.analyse = func(_ context.Context, _, origin Message) (Action, error) {
				e, err := NewEvidence(c.chain)
				if err != nil {
					return Action{}, err
				}
				answer, err := Reply(origin, Response{Answer: "17"}, e, w.Now())
				return Answer(answer), err
			}
			wantFailure(t, w.ask(t, example(t, "query")), q, FabricationDetected)
			for _, want := range []string{`"agentId":"macro-analyst"`, `"lawViolated":"R0"`, `"severity":"critical"`, `"action":"blocked"`, `"timestamp":"2025-01-29T10:30:06Z"`} {
				if !strings.Contains(w.logged.String(), want) {
					t.Errorf("violation log lacks %s:\n%s", want, w.logged)
				}
			}
		})
	}
}

// TestConsumerDetectsFabrication has a peer without a gate of its own.
func TestConsumerDetectsFabrication(t *testing.T) {
	requirements.Covers(t, "M-10", "YE-E.5")
	w := newWorld(t)
	response := []byte(example(t, "response"))
	gate := Gate{Known: func(string) bool { return true }, Holds: w.holds, Now: w.Now}
	_, err := gate.Receive(t.Context(), response)
	wantError(t, err, FabricationDetected, "evidence.sources")
	w.remember("sess-abc123", "src-wb-001")
	_, err = gate.Receive(t.Context(), response)
	wantError(t, err, FabricationDetected, "evidence.provenance")
	w.remember("sess-abc123", "world_bank_wdi")
	if _, err := gate.Receive(t.Context(), response); err != nil {
		t.Error(err)
	}
	w.broken = errors.New("disk")
	_, err = gate.Receive(t.Context(), response)
	wantError(t, err, SourceError, "")
}

func TestSafetyViolation(t *testing.T) {
	requirements.Covers(t, "YE-E.6", "YE-E.9")
	const canary = "c4n4ry-8f3a91d7e2b64055"
	q := parse(t, example(t, "query"))
	w := newWorld(t)
	for _, words := range []int{0, 100, 13_000, 40_000} { // into the third window
		text := strings.Repeat("word ", words) + "password: " + canary + strings.Repeat(" word", words)
		wantFailure(t, w.ask(t, edit(t, example(t, "query"), "payload.content.parameters.text", text)), q, SafetyViolation)
	}
	escaped := strings.Replace(example(t, "query"), "What is", `p\u0061ssword=`+canary+` is`, 1)
	wantFailure(t, w.ask(t, escaped), q, SafetyViolation)
	// What an agent finds out must not leave it either.
	w.body = `{"value":"` + canary + `","client_secret":"` + canary + `"}`
	m := w.ask(t, example(t, "query"))
	wantFailure(t, m, q, SafetyViolation)
	doc, err := Encode(*m)
	if err != nil || bytes.Contains(doc, []byte(canary)) || strings.Contains(w.logged.String(), canary) {
		t.Errorf("the canary is out: %s, %v\n%s", doc, err, w.logged)
	}
	// Nobody's gate is behind this one.
	w.analyse = func(_ context.Context, _, origin Message) (Action, error) {
		answer, err := Reply(origin, Gap{GapType: "api_key=" + canary, Indicator: "GDP"}, Evidence{}, w.Now())
		return Answer(answer), err
	}
	wantFailure(t, w.ask(t, example(t, "query")), q, SafetyViolation)
}

func TestUnauthorized(t *testing.T) {
	requirements.Covers(t, "YE-E.7", "YE-E.9")
	w := newWorld(t)
	q := parse(t, example(t, "query"))
	spoof := pipeline.Ingress{Tag: TypeQuery.Tag(), Payload: []byte(example(t, "query")), Thread: "root", Profile: "main", Sender: "somebody-else"}
	wantFailure(t, w.deliver(t, spoof), q, Unauthorized)
	noRoute := pipeline.Ingress{Tag: TypeQuery.Tag(), Payload: []byte(example(t, "query")), Thread: "root", Profile: "data", Sender: brain.AgentID}
	m := w.deliver(t, noRoute)
	if wantFailure(t, m, q, Unauthorized); m.From != gateway {
		t.Errorf("the pipeline's refusal is from %v", m.From)
	}
	m = w.ask(t, edit(t, example(t, "query"), "to.agentId", connector.AgentID))
	if wantFailure(t, m, q, Unauthorized); m.From != analyst {
		t.Errorf("the analyst's refusal is from %v", m.From)
	}
}
