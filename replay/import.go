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

// importProducer is in the header of what Import writes. The policy of such a
// session is not known, and says so.
const (
	importProducer = "lightwork-import@1"
	noPolicy       = "none"
)

// maxImport bounds the document, in bytes.
const maxImport = 64 << 20

// maxHeader bounds the first line of what is taken for a REPLAY.jsonl, in bytes.
const maxHeader = 4096

// ErrReplay: what is to become a REPLAY.jsonl is one.
var ErrReplay = errors.New("is a REPLAY.jsonl already")

// Import reads a record of OpenAgents and writes it as REPLAY.jsonl version 1.
// docs/protocol/replay.md has the mapping. Nothing is lost and nothing made up: what has
// no place of its own becomes a RuntimeEvent. The same document gives the same
// bytes. Errors wrap ErrInvalid, ErrTooLarge or ErrReplay.
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

	var s *imported
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
		err = errors.New("has no timeline, no steps and no events: it is none of the forms that are known")
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

// isReplay looks for the header that every REPLAY.jsonl begins with.
func isReplay(doc []byte) bool {
	first, _, _ := bytes.Cut(doc[:min(len(doc), maxHeader)], []byte("\n"))
	line, err := ParseLine(first)
	_, header := line.(*ReplayHeader)
	return err == nil && header
}

// imported is a session on its way.
type imported struct {
	id     string
	began  time.Time
	policy string
	status string
	events []happening
}

// happening is one event of a session: a call, the result of one, or anything
// else.
type happening struct {
	at   time.Time
	kind string // "call", "result", or the type of a RuntimeEvent
	tool string
	step string
	data json.RawMessage
	pair int // of a call its result, of a result its call; -1 without
	key  *string
}

// pairUp gives each result the oldest call of its tool that has none yet; one
// that names no tool, the oldest of all.
func (s *imported) pairUp() {
	for i := range s.events {
		s.events[i].pair = -1
	}

	waiting := []int{}
	for i, e := range s.events {
		switch e.kind {
		case "call":
			waiting = append(waiting, i)
		case "result":
			for k, c := range waiting {
				if e.tool == "" || e.tool == s.events[c].tool {
					s.events[i].pair, s.events[c].pair = c, i
					waiting = append(waiting[:k], waiting[k+1:]...)
					break
				}
			}
		}
	}
}

func (s *imported) write(w io.Writer) (Hashes, error) {
	s.pairUp()

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

func (s *imported) line(i int, e happening) (Line, error) {
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

// exitCodeOf is the exit_code of an output that has one.
func exitCodeOf(data json.RawMessage) *int64 {
	o := newObject(data)
	code := o.optionalInteger("exit_code")
	if o.err != nil {
		return nil
	}
	return code
}
