// Package curator keeps a thread's context small enough for a model. Each segment
// of the context is shown to the model in full, shown as a summary, or left out
// (AP-6).
//
// The curator folds segments that are irrelevant to the task before space runs
// short, evicts the least relevant ones when the context is over budget, and
// unfolds segments that have become relevant. All of its state is in the [Store],
// so a new [Curator] continues where the last one stopped.
package curator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Defaults of a Config.
const (
	DefaultBudget      = 8000
	defaultFoldBelow   = 0.15
	defaultUnfoldAbove = 0.3
)

// maxScored is how many bytes of an original are scored for relevance. A relevant
// passage after them is not found; the model then has to ask for the segment.
const maxScored = 32 << 10

// Score returns the relevance of each text to the task, from 0 to 1, in the order
// of texts.
type Score func(task string, texts []string) []float64

// Summarize writes the summary of a segment. The curator checks the result: if it
// quotes the original at length, it is refused and [Extract] writes the summary
// instead.
type Summarize func(ctx context.Context, s Segment, original []byte) (string, error)

// Config configures a [Curator].
type Config struct {
	Store Store
	// Budget is the most that a View may cost, in estimated tokens; 0 means
	// DefaultBudget.
	Budget int
	// FoldBelow and UnfoldAbove are relevances. A segment below FoldBelow is
	// folded, one from UnfoldAbove on is shown in full, and one between them stays
	// as it is. If both are zero the defaults apply.
	FoldBelow, UnfoldAbove float64
	// FoldFrom is a cost in tokens: while the whole thread costs no more than this,
	// no segment is folded for being irrelevant. With 0, irrelevant segments are
	// folded however much room there is.
	FoldFrom int
	// Score defaults to the share of the task's words that occur in a text.
	Score Score
	// Summarize defaults to [Extract].
	Summarize Summarize
	// Logger receives the reasons why summaries were refused, without their text.
	// If it is nil, nothing is logged.
	Logger *slog.Logger
}

func (c *Config) validate() error {
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.FoldBelow == 0 && c.UnfoldAbove == 0 {
		c.FoldBelow, c.UnfoldAbove = defaultFoldBelow, defaultUnfoldAbove
	}
	if c.Score == nil {
		c.Score = lexical
	}
	if c.Summarize == nil {
		c.Summarize = extraction
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	switch {
	case c.Store == nil:
		return errors.New("curator config: a store is required")
	case c.FoldFrom < 0:
		return fmt.Errorf("curator config: fold from %d tokens, want 0 or more", c.FoldFrom)
	case c.Budget < 0:
		return fmt.Errorf("curator config: context budget of %d tokens, want 1 or more", c.Budget)
	case !(0 <= c.FoldBelow && c.FoldBelow <= c.UnfoldAbove && c.UnfoldAbove <= 1): // also refuses NaN
		return fmt.Errorf("fold below %v, unfold above %v: want 0 <= fold <= unfold <= 1", c.FoldBelow, c.UnfoldAbove)
	}

	return nil
}

// Curator curates the threads of one store. It is safe for concurrent use, but when
// two Turns run on one thread at once, one of them may fail with the store's error.
type Curator struct{ cfg Config }

// New returns a curator.
func New(cfg Config) (*Curator, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Curator{cfg}, nil
}

// View is the context that a prompt may show, the oldest segment first.
type View struct {
	// Items are the Expanded and the Folded segments. Show the Content of each.
	Items []Segment
	// Evicted counts the segments that are left out. The model can ask for one by
	// its id, or bring it back by mentioning its subject in the next task.
	Evicted int
	// Tokens is the estimated cost of the Items' contents, at most the budget.
	Tokens int
}

// Turn curates a thread for the task at hand and returns the view for the next
// prompt. All decisions take effect in one transaction, or none does.
func (c *Curator) Turn(ctx context.Context, thread pipeline.ThreadID, task string) (View, []Decision, error) {
	return c.turn(ctx, thread, task, 0)
}

// Unfold is a Turn that shows one segment regardless of its relevance, because the
// model asked for it, for as long as the task stays the same. A wrong decision to
// fold therefore costs at most this one round trip (AP-6.5.2). The error is
// ErrUnknownSegment if the thread has no such segment, and ErrOverBudget if the
// segment alone exceeds the budget.
func (c *Curator) Unfold(ctx context.Context, thread pipeline.ThreadID, task string, id ID) (View, []Decision, error) {
	if id <= 0 {
		return View{}, nil, fmt.Errorf("unfold %s: %w", id, ErrUnknownSegment)
	}
	return c.turn(ctx, thread, task, id)
}

func (c *Curator) turn(ctx context.Context, thread pipeline.ThreadID, task string, requested ID) (View, []Decision, error) {
	items, err := c.read(ctx, thread, task)
	if err != nil {
		return View{}, nil, fmt.Errorf("curate %s: %w", thread, err)
	}
	if requested != 0 {
		if err := c.ask(items, requested, hashing.Bytes([]byte(task))); err != nil {
			return View{}, nil, fmt.Errorf("unfold: %w", err)
		}
	}

	foldBelow := c.cfg.FoldBelow
	if c.cfg.FoldFrom > 0 && cost(items) <= c.cfg.FoldFrom {
		foldBelow = 0
	}
	byRelevance(items, foldBelow, c.cfg.UnfoldAbove, c.cfg.Budget)
	if err := c.summarize(ctx, items); err != nil {
		return View{}, nil, fmt.Errorf("curate %s: %w", thread, err)
	}
	keepShorter(items)
	byBudget(items, c.cfg.Budget)
	decisions, changes := outcome(items)
	if len(changes) > 0 {
		if err := c.cfg.Store.Apply(ctx, thread, changes); err != nil {
			return View{}, nil, fmt.Errorf("curate %s: %w", thread, err)
		}
	}

	view, err := c.view(ctx, thread, items)
	return view, decisions, err
}

// read lists the segments of a thread and scores each against the task.
func (c *Curator) read(ctx context.Context, thread pipeline.ThreadID, task string) ([]item, error) {
	segments, err := c.cfg.Store.Segments(ctx, thread, maxScored)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(segments))
	for i := range segments {
		texts[i], segments[i].Content = string(segments[i].Content), nil
	}
	scores := c.cfg.Score(task, texts)
	if len(scores) != len(texts) {
		return nil, fmt.Errorf("score: %d values for %d segments", len(scores), len(texts))
	}

	digest := hashing.Bytes([]byte(task))
	items := make([]item, len(segments))
	for i, s := range segments {
		items[i] = item{Segment: s, from: s.Status}
		items[i].Relevance = unit(scores[i])
		switch {
		case s.AskedFor == digest:
			items[i].pin(askedBefore)
		case i == len(segments)-1:
			items[i].claim = newest
		}
	}

	return items, nil
}

// unit clamps a score to the range 0 to 1; NaN becomes 0.
func unit(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return max(0, min(1, f))
}

// ask marks the segment that the model asked for.
func (c *Curator) ask(items []item, id ID, task hashing.Digest) error {
	for i := range items {
		if items[i].ID != id {
			continue
		}
		if items[i].TokenEstimate > c.cfg.Budget {
			return fmt.Errorf("%s of %d tokens, budget %d: %w", id, items[i].TokenEstimate, c.cfg.Budget, ErrOverBudget)
		}
		items[i].AskedFor = task
		items[i].pin(askedNow)
		return nil
	}

	return fmt.Errorf("%s: %w", id, ErrUnknownSegment)
}

// summarize writes a summary for each segment that is about to be folded and has
// none.
func (c *Curator) summarize(ctx context.Context, items []item) error {
	for i := range items {
		it := &items[i]
		if it.Status != Folded || it.Summary != "" {
			continue
		}
		original, err := c.cfg.Store.Original(ctx, it.ThreadID, it.ID)
		if err != nil {
			return err
		}
		if it.Summary, err = c.summary(ctx, it.Segment, original); err != nil {
			return err
		}

		it.hasNewSummary = true
	}

	return nil
}

// summary returns the summarizer's text if it passes the checks, else Extract's. A
// summarizer that fails lowers the quality of the summary but never prevents the
// fold.
func (c *Curator) summary(ctx context.Context, s Segment, original []byte) (string, error) {
	text, err := c.cfg.Summarize(ctx, s, original)
	if err == nil {
		if err = CheckSummary(text, original); err == nil {
			return text, nil
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	c.cfg.Logger.Warn("summary refused, facts extracted instead", "segment", s.ID.String(), "error", err)
	return Extract(s.ContentType, original), nil
}

func (c *Curator) view(ctx context.Context, thread pipeline.ThreadID, items []item) (v View, err error) {
	for _, it := range items {
		s := it.Segment
		switch s.Status {
		case Expanded:
			if s.Content, err = c.cfg.Store.Original(ctx, thread, s.ID); err != nil {
				return View{}, fmt.Errorf("read %s: %w", s.ID, err)
			}
		case Folded:
			s.Content = []byte(s.Summary)
		default:
			v.Evicted++
			continue
		}

		v.Items = append(v.Items, s)
		v.Tokens += s.cost()
	}

	return v, nil
}

// Return ends a thread and makes the folds that its retention policy needs;
// Returned.Folds must be empty. [Returned] says what happens to the thread's
// context.
func (c *Curator) Return(ctx context.Context, r Returned) error {
	folds, err := c.Folds(ctx, r)
	if err != nil {
		return err
	}
	r.Folds = folds
	if err := c.cfg.Store.Return(ctx, r); err != nil {
		return fmt.Errorf("return %s: %w", r.Thread, err)
	}
	return nil
}

// Folds returns the folds that the return of a thread needs, for a caller that ends
// the thread in its own transaction. Nothing may be added to the thread in between.
func (c *Curator) Folds(ctx context.Context, r Returned) ([]Change, error) {
	if r.Retention.Policy != pipeline.RetainDays {
		return nil, nil
	}
	segments, err := c.cfg.Store.Segments(ctx, r.Thread, 0)
	if err != nil {
		return nil, fmt.Errorf("return %s: %w", r.Thread, err)
	}
	folds, err := c.foldAll(ctx, segments)
	if err != nil {
		return nil, fmt.Errorf("return %s: %w", r.Thread, err)
	}
	return folds, nil
}

func (c *Curator) foldAll(ctx context.Context, segments []Segment) ([]Change, error) {
	var items []item
	for _, s := range segments {
		if s.Status == Expanded {
			items = append(items, item{Segment: s, from: Expanded})
			items[len(items)-1].move(Folded, ReasonReturned)
		}
	}

	if err := c.summarize(ctx, items); err != nil {
		return nil, err
	}
	_, folds := outcome(items)
	return folds, nil
}
