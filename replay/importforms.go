package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// maxOffset bounds the offsets of a timeline to a year, in milliseconds.
const maxOffset = 366 * 24 * 3600 * 1000

// importBundle reads {version, id, created_at, metadata, timeline, receipts}.
func importBundle(o *object) (*record, error) {
	s := &record{id: o.name("id"), began: o.time("created_at").Time, policy: noPolicy}
	entries, err := o.objects("timeline")
	if err != nil {
		return nil, err
	}

	step := ""
	for i, e := range entries {
		h := event{
			at: s.began.Add(time.Duration(e.integer("t", 0, maxOffset)) * time.Millisecond), kind: e.name("type"),
			tool: e.shortText("tool"), step: step, data: e.rawOrNull("data"),
		}

		switch h.kind {
		case "tool_call":
			h.kind = "call"
			if h.tool == "" {
				e.fail("tool", "missing")
			}
		case "tool_result":
			h.kind = "result"
		case "phase_start":
			step = newObject(h.data).shortText("name")
		case "phase_end":
			step = ""
		case "assistant":
		default:
			e.fail("type", "unknown value %q", clip(h.kind))
		}

		if e.err != nil {
			return nil, fmt.Errorf("timeline[%d]: %w", i, e.err)
		}
		s.events = append(s.events, h)
	}

	s.status = bundleStatus(newObject(o.raw("receipts")))
	return s, s.addRemainder(o, "timeline", "id", "created_at")
}

// bundleStatus is Success only if the receipts state it; they need not.
func bundleStatus(receipts *object) string {
	switch receipts.shortText("ci_status") {
	case "success", "passed":
		return SessionSuccess
	case "":
		run, passed := receipts.optionalInteger("tests_run"), receipts.optionalInteger("tests_passed")
		if run != nil && passed != nil && *run > 0 && *run == *passed {
			return SessionSuccess
		}
	}
	return SessionFailed
}

// importSurface reads {session_id, steps, metadata}. A step is an object with
// tool, params or input, output or result, t or timestamp; any of them may be
// absent.
func importSurface(o *object) (*record, error) {
	s := &record{id: o.name("session_id"), policy: noPolicy}
	meta := newObject(o.raw("metadata"))
	if began := meta.anyTime("created_at", "started_at"); began != nil {
		s.began = *began
	}
	steps, err := o.objects("steps")
	if err != nil {
		return nil, err
	}

	for i, e := range steps {
		if at := e.anyTime("timestamp", "t"); at != nil {
			if s.began.IsZero() {
				s.began = *at
			}
			s.events = append(s.events, event{at: *at})
		} else {
			s.events = append(s.events, event{at: s.began.Add(time.Duration(e.offset()) * time.Millisecond)})
		}
		if e.err != nil {
			return nil, fmt.Errorf("steps[%d]: %w", i, e.err)
		}
	}

	if s.began.IsZero() {
		return nil, errors.New("metadata.created_at: missing, and the first step has no timestamp")
	}
	s.addSteps(steps)
	s.status = SessionFailed

	switch meta.shortText("status") {
	case "success", "Success", "completed":
		s.status = SessionSuccess
	case "cancelled", "Cancelled":
		s.status = SessionCancelled
	}

	return s, s.addRemainder(o, "steps", "session_id")
}

// addSteps turns every step that has a tool and an output into a call and a result.
func (s *record) addSteps(steps []*object) {
	times := s.events
	s.events = nil

	for i, e := range steps {
		at, tool, id := times[i].at, e.shortText("tool"), e.shortText("id")
		output := e.first("output", "result")
		if tool == "" || output == nil {
			s.events = append(s.events, event{at: at, kind: "step", data: e.whole})
			continue
		}
		params := e.first("params", "input")
		if params == nil {
			params = json.RawMessage("null")
		}
		s.events = append(s.events, event{at: at, kind: "call", tool: tool, step: id, data: params})
		later := at.Add(time.Duration(e.duration()) * time.Millisecond)
		s.events = append(s.events, event{at: later, kind: "result", tool: tool, data: output})
	}
}

// importHistory reads {run_id, created_at, metadata, events, expected}. A
// trajectory_hash in expected must be the hash of the events in the form that
// OpenAgents hashes.
func importHistory(o *object) (*record, error) {
	s := &record{id: o.name("run_id"), began: o.time("created_at").Time, policy: noPolicy, status: SessionFailed}
	if policy := newObject(o.raw("metadata")).shortText("policy_bundle_id"); policy != "" {
		s.policy = policy
	}
	entries, err := o.objects("events")
	if err != nil {
		return nil, err
	}

	var legacy []hashing.LegacyEvent
	for i, e := range entries {
		ev := hashing.LegacyEvent{
			Seq: uint64(e.count("seq")), EventType: e.name("event_type"), Payload: e.rawOrNull("payload"),
			IdempotencyKey: e.optionalName("idempotency_key"), RecordedAt: e.time("recorded_at").Time,
		}
		if e.err == nil && ev.Seq != uint64(i+1) {
			e.fail("seq", "is %d, want %d", ev.Seq, i+1)
		}
		if e.err != nil {
			return nil, fmt.Errorf("events[%d]: %w", i, e.err)
		}
		legacy = append(legacy, ev)
		s.events = append(s.events, event{at: ev.RecordedAt, kind: ev.EventType, data: ev.Payload, key: ev.IdempotencyKey})
		s.status = historyStatus(newObject(ev.Payload).shortText("status"), s.status)
	}

	if want := newObject(o.raw("expected")).shortText("trajectory_hash"); want != "" {
		got, err := hashing.LegacyTrajectory(legacy)
		if err != nil {
			return nil, err
		}
		if got.String() != want {
			return nil, fmt.Errorf("expected.trajectory_hash is %q, the events give %s", clip(want), got)
		}
	}

	return s, s.addRemainder(o, "events", "run_id", "created_at")
}

func historyStatus(shortText, before string) string {
	switch shortText {
	case "succeeded":
		return SessionSuccess
	case "failed":
		return SessionFailed
	case "canceled", "cancelled":
		return SessionCancelled
	case "timed_out", "timeout":
		return SessionTimeout
	}
	return before
}

// addRemainder puts the fields that the mapping does not use into one last
// RuntimeEvent, so that nothing is lost.
func (s *record) addRemainder(o *object, mapped ...string) error {
	if o.err != nil {
		return o.err
	}
	remainder := map[string]json.RawMessage{}
	for name, value := range o.doc.Members() {
		remainder[name] = value
	}
	for _, name := range mapped {
		delete(remainder, name)
	}
	if len(remainder) == 0 {
		return nil
	}
	doc, err := json.Marshal(remainder)
	last := s.began
	if n := len(s.events); n > 0 {
		last = s.events[n-1].at
	}
	s.events = append(s.events, event{at: last, kind: "imported.rest", data: doc})
	return err
}
