package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// The forms that Import reads.
const (
	FormBundle  = "ReplayBundle"                     // version, id, created_at, metadata, timeline, receipts
	FormSurface = "ReplayBundle of session_id/steps" // session_id, steps, metadata
	FormHistory = "run history"                      // run_id, created_at, metadata, events
)

// importProducer is the producer in the header of an imported file, and noPolicy its
// policy bundle if the record names none.
const (
	importProducer = "lightwork-import@1"
	noPolicy       = "none"
)

// maxImport bounds the document, in bytes.
const maxImport = 64 << 20

// maxHeader bounds the part of a document that is searched for a header, in bytes.
const maxHeader = 4096

// ErrReplay is returned for a document that is a REPLAY.jsonl and needs no import.
var ErrReplay = errors.New("is a REPLAY.jsonl already")

// Import reads a record of OpenAgents and writes it as REPLAY.jsonl version 1.
// docs/protocol/replay.md has the mapping. It loses nothing and invents nothing: a
// field without a counterpart goes into a RuntimeEvent. The same document always gives
// the same bytes. Errors wrap [ErrInvalid], [ErrTooLarge] or [ErrReplay].
func Import(doc []byte, w io.Writer) (form string, h Hashes, err error) {
	if len(doc) > maxImport {
		return "", h, fmt.Errorf("import replay: %w: more than %d bytes", ErrTooLarge, maxImport)
	}
	if isReplay(doc) {
		return "", h, fmt.Errorf("import replay: it %w", ErrReplay)
	}

	o := newObject(doc)
	if o.err != nil {
		return "", h, fmt.Errorf("import replay: %w", invalid("%v", o.err))
	}

	var s *record
	switch {
	case o.raw("timeline") != nil:
		form = FormBundle
		s, err = importBundle(o)
	case o.raw("steps") != nil:
		form = FormSurface
		s, err = importSurface(o)
	case o.raw("events") != nil:
		form = FormHistory
		s, err = importHistory(o)
	default:
		err = errors.New("has no timeline, no steps and no events, so it is not a known form of record")
	}

	if err == nil {
		err = o.err
	}
	if err != nil {
		return "", h, fmt.Errorf("import replay: %w", invalid("%v", err))
	}
	h, err = s.write(w)
	return form, h, err
}

// isReplay reports whether the document begins with the header of a REPLAY.jsonl.
func isReplay(doc []byte) bool {
	first, _, _ := bytes.Cut(doc[:min(len(doc), maxHeader)], []byte("\n"))
	line, err := ParseLine(first)
	_, header := line.(*ReplayHeader)
	return err == nil && header
}

// record is a session that is being imported.
type record struct {
	id     string
	began  time.Time
	policy string
	status string
	events []event
}

// event is one event of a session: a call, a result, or anything else.
type event struct {
	at   time.Time
	kind string // "call", "result", or the type of a RuntimeEvent
	tool string
	step string
	data json.RawMessage
	pair int // index of a call's result or a result's call; -1 if there is none
	key  *string
}

// pairCalls gives each result the oldest open call of its tool, or the oldest open
// call of all if the result names no tool.
func (s *record) pairCalls() {
	for i := range s.events {
		s.events[i].pair = -1
	}

	open := []int{}
	for i, e := range s.events {
		switch e.kind {
		case "call":
			open = append(open, i)
		case "result":
			for k, c := range open {
				if e.tool == "" || e.tool == s.events[c].tool {
					s.events[i].pair, s.events[c].pair = c, i
					open = append(open[:k], open[k+1:]...)
					break
				}
			}
		}
	}
}

func (s *record) write(w io.Writer) (Hashes, error) {
	s.pairCalls()

	out := NewWriter(w)
	for _, line := range []Line{
		&ReplayHeader{Producer: importProducer, CreatedAt: At(s.began)},
		&SessionStart{T: At(s.began), SessionID: s.id, PolicyBundleID: s.policy},
	} {
		if err := out.Write(line); err != nil {
			return Hashes{}, err
		}
	}

	end := &SessionEnd{T: At(s.began), Status: s.status}
	for i, e := range s.events {
		line, err := s.line(i, e)
		if err != nil {
			return Hashes{}, fmt.Errorf("import replay: %w", err)
		}
		if r, ok := line.(*ToolResult); ok {
			end.TotalToolCalls++
			end.TotalLatencyMs += r.LatencyMs
		}

		if err := out.Write(line); err != nil {
			return Hashes{}, err
		}
		if e.at.After(end.T.Time) {
			end.T = At(e.at)
		}
	}

	if err := out.Write(end); err != nil {
		return Hashes{}, err
	}
	return out.Close()
}

func (s *record) line(i int, e event) (Line, error) {
	switch {
	case e.kind == "call" && e.pair >= 0:
		return &ToolCall{T: At(e.at), ID: callID(i), Tool: e.tool, Params: e.data, StepID: e.step}, nil
	case e.kind == "result" && e.pair >= 0:
		hash, err := hashing.Sum(e.data)
		latency := max(0, e.at.Sub(s.events[e.pair].at).Milliseconds())
		return &ToolResult{T: At(e.at), ID: callID(e.pair), OutputHash: hash, ExitCode: exitCodeOf(e.data), LatencyMs: latency}, err
	}

	name := map[string]string{"call": "tool_call", "result": "tool_result"}[e.kind]
	if name == "" {
		name = e.kind
	}
	return &RuntimeEvent{T: At(e.at), SessionID: s.id, Seq: int64(i), Type: name, Payload: e.data, IdempotencyKey: e.key}, nil
}

func callID(i int) string { return fmt.Sprintf("tc_%d", i) }

// exitCodeOf returns the exit_code of an output, or nil.
func exitCodeOf(data json.RawMessage) *int64 {
	o := newObject(data)
	code := o.optionalInteger("exit_code")
	if o.err != nil {
		return nil
	}
	return code
}
