package curator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

var (
	// ErrUnknownSegment: the thread has no such segment. Another thread's
	// segments are as unknown as those that never were.
	ErrUnknownSegment = errors.New("no such segment in this thread")
	// ErrOverBudget: the segment alone is larger than the whole budget.
	ErrOverBudget = errors.New("segment is larger than the context budget")
	// ErrExcerpt: a summary repeats the original instead of summing it up.
	ErrExcerpt = errors.New("summary repeats the original")
	// ErrSummary: a summary breaks a rule of its form.
	ErrSummary = errors.New("summary is not valid")
)

// ID names a segment for good: it is never given twice, and the same after a
// restart. Its text form, for prompts, is "ctx-17".
type ID int64

func (id ID) String() string { return "ctx-" + strconv.FormatInt(int64(id), 10) }

// parseID reads the text form.
func parseID(s string) (ID, error) {
	digits, ok := strings.CutPrefix(s, "ctx-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if id := ID(n); ok && err == nil && n > 0 && id.String() == s {
		return id, nil
	}
	return 0, fmt.Errorf("segment id %.40q: %w", s, ErrUnknownSegment)
}

// Status is the tier of a segment (AP-6.1.1).
type Status string

// The tiers. The original is on disk in each of them.
const (
	Expanded Status = "Expanded" // the prompt shows the original
	Folded   Status = "Folded"   // the prompt shows the summary
	Evicted  Status = "Evicted"  // the prompt shows nothing of it
)

// Segment is one piece of a thread's context (AP-6.2.1).
type Segment struct {
	ID       ID
	ThreadID pipeline.ThreadID
	// Content is what a View shows: the original, or the summary of a Folded
	// one. A Store gives the beginning of the original.
	Content     []byte
	ContentType string // media type, for example "text/plain"
	// Relevance, 0 to 1, is to the task of the last status change; in a View to
	// the task of that Turn.
	Relevance float64
	Status    Status
	// ByteSize and TokenEstimate are of the original: what unfolding costs.
	ByteSize      int
	TokenEstimate int
	// Summary is the last one made, "" before the first.
	Summary string
	// AskedFor is the digest of the task under which the segment was last asked
	// for by id; zero if it was not.
	AskedFor hashing.Digest
}

// EstimateTokens is the number of tokens that so many bytes are taken for: a
// quarter, rounded up. It errs on the high side for English and code, on the
// low side for scripts of three bytes a character.
func EstimateTokens(bytes int) int { return (bytes + 3) / 4 }

// cost is what the prompt pays for the segment as it stands, in tokens.
func (s Segment) cost() int {
	switch s.Status {
	case Expanded:
		return s.TokenEstimate
	case Folded:
		return EstimateTokens(len(s.Summary))
	}
	return 0
}

// Change moves a segment from one tier to another.
type Change struct {
	ID        ID
	From, To  Status // the same only to record AskedFor
	Relevance float64
	// Summary is a new one; "" keeps the one there is. Folded needs one.
	Summary  string
	AskedFor hashing.Digest
}

// Returned is how a thread ends and what becomes of its context.
type Returned struct {
	Thread pipeline.ThreadID
	Failed bool
	// Result goes to the parent thread as a segment of its own; nil for none.
	Result      []byte
	ContentType string
	// Retention is the journal policy of the thread's profile. It decides over
	// the context too (AP-5.2.4): retain_forever retains it as it stands,
	// retain_days(N) folds it and deletes it after N days, prune_on_delivery
	// deletes it now.
	Retention pipeline.Retention
	// Folds are the folds that retain_days needs: one for each Expanded segment.
	Folds []Change
}

// Store keeps segments. What it did is durable when a method returns.
type Store interface {
	// Segments returns a thread's segments, the oldest first, each with the first
	// head bytes of its original.
	Segments(ctx context.Context, thread pipeline.ThreadID, head int) ([]Segment, error)
	// Original returns a segment's bytes as they were put, in whatever tier.
	Original(ctx context.Context, thread pipeline.ThreadID, id ID) ([]byte, error)
	// Apply makes all the changes or none. A segment that is no longer where a
	// change starts from is an error.
	Apply(ctx context.Context, thread pipeline.ThreadID, changes []Change) error
	// Return ends a thread, all of it or nothing.
	Return(ctx context.Context, r Returned) error
}
