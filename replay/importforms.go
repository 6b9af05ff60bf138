package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// maxOffset bounds the milliseconds of a timeline: a year.
const maxOffset = 366 * 24 * 3600 * 1000

// importBundle reads {version, id, created_at, metadata, timeline, receipts}.
func importBundle(o *object) (*imported, error) {
	s := &imported{id: o.name("id"), began: o.time("created_at").Time, policy: noPolicy}
	entries, err := o.objects("timeline")
	if err != nil {
		return nil, err
	}

	step := ""
	for i, e := range entries {
		h := happening{
			at: s.began.Add(time.Duration(e.integer("t", 0, maxOffset)) * time.Millisecond), kind: e.name("type"),
			tool: e.word("tool"), step: step, data: e.either("data"),
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
			step = newObject(h.data).word("name")
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
	return s, s.rest(o, "timeline", "id", "created_at")
}

// bundleStatus is Success only where the bundle says so.
func bundleStatus(receipts *object) string {
	switch receipts.word("ci_status") {
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
func importSurface(o *object) (*imported, error) {
	s := &imported{id: o.name("session_id"), policy: noPolicy}
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
			s.events = append(s.events, happening{at: *at})
		} else {
			s.events = append(s.events, happening{at: s.began.Add(time.Duration(e.offset()) * time.Millisecond)})
		}
		if e.err != nil {
			return nil, fmt.Errorf("steps[%d]: %w", i, e.err)
		}
	}

	if s.began.IsZero() {
		return nil, errors.New("metadata.created_at: missing, and the first step has no timestamp")
	}
	s.unfold(steps)
	s.status = SessionFailed

	switch meta.word("status") {
	case "success", "Success", "completed":
		s.status = SessionSuccess
	case "cancelled", "Cancelled":
		s.status = SessionCancelled
	}

	return s, s.rest(o, "steps", "session_id")
}

// unfold makes a call and its result of every step that has both.
func (s *imported) unfold(steps []*object) {
	times := s.events
	s.events = nil

	for i, e := range steps {
		at, tool, id := times[i].at, e.word("tool"), e.word("id")
		output := e.first("output", "result")
		if tool == "" || output == nil {
			s.events = append(s.events, happening{at: at, kind: "step", data: e.whole})
			continue
		}
		params := e.first("params", "input")
		if params == nil {
			params = json.RawMessage("null")
		}
		s.events = append(s.events, happening{at: at, kind: "call", tool: tool, step: id, data: params})
		later := at.Add(time.Duration(e.duration()) * time.Millisecond)
		s.events = append(s.events, happening{at: later, kind: "result", tool: tool, data: output})
	}
}

// importHistory reads {run_id, created_at, metadata, events, expected}. Where
// it states its trajectory_hash, it must be that of the events in the form
// that OpenAgents hashes.
func importHistory(o *object) (*imported, error) {
	s := &imported{id: o.name("run_id"), began: o.time("created_at").Time, policy: noPolicy, status: SessionFailed}
	if policy := newObject(o.raw("metadata")).word("policy_bundle_id"); policy != "" {
		s.policy = policy
	}
	entries, err := o.objects("events")
	if err != nil {
		return nil, err
	}

	var legacy []hashing.LegacyEvent
	for i, e := range entries {
		ev := hashing.LegacyEvent{
			Seq: uint64(e.count("seq")), EventType: e.name("event_type"), Payload: e.either("payload"),
			IdempotencyKey: e.optionalName("idempotency_key"), RecordedAt: e.time("recorded_at").Time,
		}
		if e.err == nil && ev.Seq != uint64(i+1) {
			e.fail("seq", "is %d, the place is %d", ev.Seq, i+1)
		}
		if e.err != nil {
			return nil, fmt.Errorf("events[%d]: %w", i, e.err)
		}
		legacy = append(legacy, ev)
		s.events = append(s.events, happening{at: ev.RecordedAt, kind: ev.EventType, data: ev.Payload, key: ev.IdempotencyKey})
		s.status = historyStatus(newObject(ev.Payload).word("status"), s.status)
	}

	if want := newObject(o.raw("expected")).word("trajectory_hash"); want != "" {
		got, err := hashing.LegacyTrajectory(legacy)
		if err != nil {
			return nil, err
		}
		if got.String() != want {
			return nil, fmt.Errorf("expected.trajectory_hash is %q, the events give %s", clip(want), got)
		}
	}

	return s, s.rest(o, "events", "run_id", "created_at")
}

func historyStatus(word, before string) string {
	switch word {
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

// rest keeps what the mapping has no place for, as one last RuntimeEvent.
func (s *imported) rest(o *object, mapped ...string) error {
	if o.err != nil {
		return o.err
	}
	kept := map[string]json.RawMessage{}
	for name, value := range o.doc.Members() {
		kept[name] = value
	}
	for _, name := range mapped {
		delete(kept, name)
	}
	if len(kept) == 0 {
		return nil
	}
	doc, err := json.Marshal(kept)
	last := s.began
	if n := len(s.events); n > 0 {
		last = s.events[n-1].at
	}
	s.events = append(s.events, happening{at: last, kind: "imported.rest", data: doc})
	return err
}
