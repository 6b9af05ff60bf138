package replay

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

// ErrInvalid is wrapped by every error about the lines of a file or their order.
var ErrInvalid = errors.New("invalid replay")

// Summary is the outcome of checking a file.
type Summary struct {
	Hashes
	Producer       string
	SessionID      string
	PolicyBundleID string
	// Plan is the plan hash, or nil for a session without a PlanStart.
	Plan *hashing.Digest
	// Status is one of the Session constants.
	Status    string
	ToolCalls int
	// Output is the output hash of the last ToolResult, or nil.
	Output   *hashing.Digest
	Payments []Payment
	// PaidFirst is true if there is a payment and no ToolCall before the first one.
	PaidFirst bool
	// IsRedacted is true if every line has lost its params and payload. Then only the
	// hash Redacted can be compared with the complete session.
	IsRedacted bool
	// IsCanonical is true if every line is in canonical form, as it must be in a
	// bundle.
	IsCanonical bool
}

// session checks the rules that span lines. Writer and Check share it, so Check
// accepts every file that a Writer writes.
type session struct {
	Summary
	lines    int
	created  Time
	open     map[string]bool // by id of each tool call: the result is still missing
	pending  int
	steps    map[string]bool
	planned  int64
	seq      int64
	complete bool // a line had params or payload
	stripped bool // a line lacked them
	ended    bool
}

// maxPayments bounds what a summary keeps; a session has one or two.
const maxPayments = 64

func newSession() *session {
	return &session{open: map[string]bool{}, steps: map[string]bool{}, seq: -1}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// next checks the next line.
func (s *session) next(line Line) error {
	s.lines++
	if err := s.checkPlace(line); err != nil {
		return err
	}

	switch l := line.(type) {
	case *ReplayHeader:
		s.created = l.CreatedAt
		if l.ReplayVersion != Version {
			return invalid("replay_version is %d, not %d", l.ReplayVersion, Version)
		}
		s.Producer = l.Producer
	case *SessionStart:
		// The hash of a redacted file does not cover its header, so SessionStart,
		// which it covers, must determine the header.
		if s.Producer == redactedProducer && !At(s.created.Time).Equal(At(l.T.Time).Time) {
			return invalid("redacted, and its header has another time than SessionStart")
		}
		s.SessionID, s.PolicyBundleID = l.SessionID, l.PolicyBundleID
	case *PlanStart:
		return s.plan(l)
	case *ToolCall:
		s.redaction(l.Params == nil)
		return s.call(l)
	case *ToolResult:
		return s.result(l)
	case *StepComplete:
		return s.step(l)
	case *Payment:
		if len(s.Payments) == maxPayments {
			return invalid("more than %d payments", maxPayments)
		}
		s.PaidFirst = s.PaidFirst || len(s.Payments) == 0 && s.ToolCalls == 0
		s.Payments = append(s.Payments, *l)
	case *RuntimeEvent:
		s.redaction(l.Payload == nil)
		return s.runtime(l)
	case *SessionEnd:
		return s.end(l)
	}

	return nil
}

// checkPlace requires the header first, then SessionStart, and SessionEnd last, each
// once.
func (s *session) checkPlace(line Line) error {
	if s.ended {
		return invalid("%s after SessionEnd", clip(line.Event()))
	}

	_, header := line.(*ReplayHeader)
	_, start := line.(*SessionStart)
	switch {
	case header != (s.lines == 1):
		return invalid("line %d is %s: the first line, and no other, is ReplayHeader", s.lines, clip(line.Event()))
	case start != (s.lines == 2):
		return invalid("line %d is %s: the second line, and no other, is SessionStart", s.lines, clip(line.Event()))
	}

	return nil
}

func (s *session) plan(l *PlanStart) error {
	if s.Plan != nil {
		return invalid("a second PlanStart")
	}
	if s.ToolCalls > 0 {
		return invalid("PlanStart after a ToolCall: a plan is fixed before anything runs")
	}
	plan := l.PlanHash
	s.Plan, s.planned = &plan, l.StepCount
	return nil
}

func (s *session) call(l *ToolCall) error {
	if _, ok := s.open[l.ID]; ok {
		return invalid("a second ToolCall %q", clip(l.ID))
	}
	s.open[l.ID] = true
	s.pending++
	s.ToolCalls++
	return nil
}

func (s *session) result(l *ToolResult) error {
	open, ok := s.open[l.ID]
	switch {
	case !ok:
		return invalid("ToolResult %q has no ToolCall before it", clip(l.ID))
	case !open:
		return invalid("a second ToolResult %q", clip(l.ID))
	}

	s.open[l.ID] = false
	s.pending--
	output := l.OutputHash
	s.Output = &output
	return nil
}

func (s *session) step(l *StepComplete) error {
	if s.steps[l.StepID] {
		return invalid("a second StepComplete %q", clip(l.StepID))
	}
	s.steps[l.StepID] = true
	if s.Plan != nil && int64(len(s.steps)) > s.planned {
		return invalid("more than the plan's %d steps complete", s.planned)
	}
	return nil
}

func (s *session) runtime(l *RuntimeEvent) error {
	if l.SessionID != s.SessionID {
		return invalid("RuntimeEvent of session %q", clip(l.SessionID))
	}
	if l.Seq <= s.seq {
		return invalid("RuntimeEvent seq %d after %d", l.Seq, s.seq)
	}
	s.seq = l.Seq
	return nil
}

func (s *session) end(l *SessionEnd) error {
	if s.pending > 0 {
		return invalid("%d ToolCalls without a ToolResult", s.pending)
	}
	if l.TotalToolCalls != int64(s.ToolCalls) {
		return invalid("total_tool_calls is %d, the file has %d", l.TotalToolCalls, s.ToolCalls)
	}
	s.Status, s.ended = l.Status, true
	return nil
}

// redaction records whether a line lacked its params or payload.
func (s *session) redaction(stripped bool) {
	s.complete = s.complete || !stripped
	s.stripped = s.stripped || stripped
}

// finish is called after the last line.
func (s *session) finish() error {
	if !s.ended {
		return invalid("no SessionEnd: the file is cut short")
	}
	if s.complete && s.stripped {
		return invalid("partly redacted: some lines have lost params or payload")
	}
	if s.complete && s.Producer == redactedProducer {
		return invalid("says it is redacted and still has params or payload")
	}
	if s.stripped && s.Producer != redactedProducer {
		return invalid("redacted, and its header does not say so")
	}

	s.IsRedacted = s.Producer == redactedProducer
	return nil
}
