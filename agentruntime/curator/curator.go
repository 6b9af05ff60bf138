// Package curator keeps a thread's context within what a model can use: of each
// segment the prompt shows the original, a summary, or nothing (AP-6).
//
// It folds what is irrelevant to the task before there is any pressure, evicts
// the least relevant when the whole is over budget, and brings back what has
// become relevant. It keeps no state: what it knows is in the Store, and a new
// Curator goes on where the last one stopped.
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

// maxScored is how much of an original is read for its relevance, in bytes. What
// matters only further behind is missed; then the model has to ask.
const maxScored = 32 << 10

// Score says how relevant each text is to the task, 0 to 1, in the order of the
// texts.
type Score func(task string, texts []string) []float64

// Summarize makes the summary of a segment. What it returns is checked: an
// excerpt is refused and Extract's summary taken instead.
type Summarize func(ctx context.Context, s Segment, original []byte) (string, error)

// Config is a curator's.
type Config struct {
	Store Store
	// Budget is the most that a View may cost, in estimated tokens; 0 means
	// DefaultBudget.
	Budget int
	// FoldBelow and UnfoldAbove are relevances: below the first a segment is
	// folded, from the second on it is shown. What is between stays as it is.
	// Both zero: the defaults.
	FoldBelow, UnfoldAbove float64
	// FoldFrom is a cost in tokens: as long as all of a thread costs no more, nothing
	// is folded for being irrelevant. 0: it is folded however much room there is.
	FoldFrom int
	// Score is Lexical if nil.
	Score Score
	// Summarize is Extract if nil.
	Summarize Summarize
	// Logger receives refused summaries, without their text; nil discards.
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

// Curator curates the threads of one store. It is safe for concurrent use; of
// two Turns at once on one thread, one may fail with the store's error.
type Curator struct{ cfg Config }

// New returns a curator.
func New(cfg Config) (*Curator, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Curator{cfg}, nil
}

// View is what the prompt may show, the oldest segment first.
type View struct {
	// Items are the Expanded and the Folded segments; Content is what to show.
	Items []Segment
	// Evicted counts the segments that are not shown. A model that misses one
	// asks for it by id, or by naming what it is about in the next task.
	Evicted int
	// Tokens is the estimated cost of the Items' contents, at most the budget.
	Tokens int
}

// Turn curates a thread for the task at hand and returns the view for the next
// prompt. All decisions take effect in one transaction, or none does.
func (c *Curator) Turn(ctx context.Context, thread pipeline.ThreadID, task string) (View, []Decision, error) {
	return c.turn(ctx, thread, task, 0)
}

// Unfold is a Turn in which one segment is shown because it was asked for, with
// no regard to its relevance, for as long as the task stays the same. So the
// worst that a bad decision costs is this one round trip (AP-6.5.2).
// ErrUnknownSegment if the thread has no such segment, ErrOverBudget if it can
// never be shown as a whole.
func (c *Curator) Unfold(ctx context.Context, thread pipeline.ThreadID, task string, id ID) (View, []Decision, error) {
	if id <= 0 {
		return View{}, nil, fmt.Errorf("unfold %s: %w", id, ErrUnknownSegment)
	}
	return c.turn(ctx, thread, task, id)
}

func (c *Curator) turn(ctx context.Context, thread pipeline.ThreadID, task string, asked ID) (View, []Decision, error) {
	items, err := c.read(ctx, thread, task)
	if err != nil {
		return View{}, nil, fmt.Errorf("curate %s: %w", thread, err)
	}
	if asked != 0 {
		if err := c.ask(items, asked, hashing.Bytes([]byte(task))); err != nil {
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

// read lists a thread's segments with their relevance to the task.
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
			items[i].wanted(askedBefore)
		case i == len(segments)-1:
			items[i].claim = newest
		}
	}

	return items, nil
}

// unit brings what a Score returned into its range; NaN is 0.
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
		items[i].wanted(askedNow)
		return nil
	}

	return fmt.Errorf("%s: %w", id, ErrUnknownSegment)
}

// summarize gives a summary to what is to be folded and has none yet.
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

		it.made = true
	}

	return nil
}

// summary is the summarizer's, if it keeps the rules, or Extract's. A summarizer
// that fails costs quality, never the fold.
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

// Return ends a thread, with the folds that its policy needs; Returned.Folds
// must be empty. See Returned for what becomes of its context.
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

// Folds makes the folds that a thread's return needs, for a caller who ends the
// thread in a transaction of its own. Nothing may be added to the thread between.
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
