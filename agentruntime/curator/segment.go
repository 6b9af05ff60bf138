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
	// ErrUnknownSegment: the thread has no such segment. Segments of other threads
	// are reported like segments that never existed.
	ErrUnknownSegment = errors.New("no such segment in this thread")
	// ErrOverBudget: the segment alone is larger than the whole budget.
	ErrOverBudget = errors.New("segment is larger than the context budget")
	// ErrExcerpt: a summary quotes the original instead of summarizing it.
	ErrExcerpt = errors.New("summary repeats the original")
	// ErrSummary: a summary is empty, too long or not text.
	ErrSummary = errors.New("summary is not valid")
)

// ID identifies a segment for good: ids are never reused and survive a restart. In
// prompts it is written "ctx-17".
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

// The tiers. The store keeps the original in every tier.
const (
	Expanded Status = "Expanded" // the prompt shows the original
	Folded   Status = "Folded"   // the prompt shows the summary
	Evicted  Status = "Evicted"  // the prompt does not show it
)

// Segment is one piece of a thread's context (AP-6.2.1).
type Segment struct {
	ID       ID
	ThreadID pipeline.ThreadID
	// Content is the text that a View shows: the original, or the summary of a
	// Folded segment. A Store fills in the beginning of the original.
	Content     []byte
	ContentType string // media type, for example "text/plain"
	// Relevance, 0 to 1, belongs to the task of the last status change; in a View
	// it belongs to the task of that Turn.
	Relevance float64
	Status    Status
	// ByteSize and TokenEstimate are those of the original: the cost of unfolding.
	ByteSize      int
	TokenEstimate int
	// Summary is the latest summary, "" before the first.
	Summary string
	// AskedFor is the digest of the task under which the model last asked for the
	// segment by id; zero if it never did.
	AskedFor hashing.Digest
}

// EstimateTokens estimates the tokens of a text as a quarter of its bytes, rounded
// up. That is high for English and code, and low for scripts with three bytes a
// character.
func EstimateTokens(bytes int) int { return (bytes + 3) / 4 }

// cost is what the segment costs in a prompt in its current tier, in tokens.
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
	// Summary is a new summary; "" keeps the old one. Folded needs one.
	Summary  string
	AskedFor hashing.Digest
}

// Returned describes the end of a thread and what happens to its context.
type Returned struct {
	Thread pipeline.ThreadID
	Failed bool
	// Result is added to the parent thread as a segment of its own; nil adds none.
	Result      []byte
	ContentType string
	// Retention is the journal policy of the thread's profile, which also decides
	// over the context (AP-5.2.4): retain_forever keeps the context as it is,
	// retain_days(N) folds it and deletes it after N days, prune_on_delivery
	// deletes it now.
	Retention pipeline.Retention
	// Folds has one fold for each Expanded segment under retain_days.
	Folds []Change
}

// Store keeps segments. Its changes are durable when a method returns.
type Store interface {
	// Segments returns the segments of a thread, the oldest first, each with the
	// first head bytes of its original.
	Segments(ctx context.Context, thread pipeline.ThreadID, head int) ([]Segment, error)
	// Original returns the bytes of a segment as they were stored, in any tier.
	Original(ctx context.Context, thread pipeline.ThreadID, id ID) ([]byte, error)
	// Apply makes all changes or none. It fails if a segment is no longer in the
	// tier that its change starts from.
	Apply(ctx context.Context, thread pipeline.ThreadID, changes []Change) error
	// Return ends a thread in one transaction.
	Return(ctx context.Context, r Returned) error
}
