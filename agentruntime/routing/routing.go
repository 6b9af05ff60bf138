// Package routing finds the handler for a need in natural language. It ranks all
// handlers by similarity, masks those that the thread's table does not reach, selects
// the best of the others, makes a request for it and dispatches the request (AP-10).
//
// It only advises: a request passes every gate of the pipeline like any message, so no
// score makes a handler reachable that the table lacks.
package routing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// Capability is a handler as the router knows it.
type Capability struct {
	// Name and Tag are the handler's; a handler with several tags is several
	// capabilities.
	Name, Tag string
	// Description is the semantic description if there is one, else the
	// handler's description.
	Description string
	// Schema is the JSON Schema of the request, for the form fillers.
	Schema json.RawMessage
	// Check is what the pipeline validates the tag's payload with; nil accepts.
	Check pipeline.Validate
	// InWords says that the handler takes the text of the need itself as its request.
	InWords bool
}

// Embed turns texts into vectors of one length. An error ends the routing.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// Filler makes a request for a capability from the text of a need.
type Filler struct {
	// Name is the name of a model, or "rules".
	Name string
	Fill func(ctx context.Context, c Capability, need string) ([]byte, error)
}

// Step is one line of a trace: the five steps of a routing, in their order.
type Step string

// The steps.
const (
	StepRank     Step = "rank"
	StepMask     Step = "mask"
	StepSelect   Step = "select"
	StepFill     Step = "fill"
	StepDispatch Step = "dispatch"
)

// Config is what a Router works with. Embed and at least one Filler are required.
type Config struct {
	Capabilities []Capability
	Embed        Embed
	// Fillers are tried in order until one gives a request that the schema accepts.
	Fillers []Filler
	// Threshold is the lowest score that counts as a match; 0 is 0.3, as
	// upstream has it. Scores are cosines, -1 to 1.
	Threshold float64
	// Trace, if set, receives each step with a short description.
	Trace func(s Step, detail string)
}

// maxNeedBytes bounds the text of a need.
const maxNeedBytes = 8 << 10

const defaultThreshold = 0.3

// Errors of Route. ErrNoMatch means that no handler fits the need; ErrMasked means that
// one does, but the profile does not reach it.
var (
	ErrMasked  = errors.New("no matching capability in your profile")
	ErrNoMatch = errors.New("no capability matches")
	ErrNoForm  = errors.New("the request could not be filled in")
	ErrNeed    = errors.New("the need is empty or too long")
)

// Candidate is one line of the ranking.
type Candidate struct {
	Name  string  `json:"name"`
	Tag   string  `json:"tag"`
	Score float64 `json:"score"`
	// Masked says that the thread's table does not reach it.
	Masked bool `json:"masked"`
}

// Choice is what a need was routed to.
type Choice struct {
	Candidate
	Ranking []Candidate `json:"ranking"` // all above the threshold, best first
	Payload []byte      `json:"-"`
	// FilledBy names the filler that made the payload.
	FilledBy string `json:"filled_by"`
}

// Router is an index of capabilities. It does not change.
type Router struct {
	cfg     Config
	vectors [][]float32
}

// New embeds every description.
func New(ctx context.Context, cfg Config) (*Router, error) {
	if cfg.Embed == nil || len(cfg.Fillers) == 0 {
		return nil, errors.New("routing: an embedding and a form filler are required")
	}
	if cfg.Threshold == 0 {
		cfg.Threshold = defaultThreshold
	}
	if cfg.Trace == nil {
		cfg.Trace = func(Step, string) {}
	}
	r := &Router{cfg: cfg}

	texts := make([]string, len(cfg.Capabilities))
	for i, c := range cfg.Capabilities {
		if c.Name == "" || c.Tag == "" || strings.TrimSpace(c.Description) == "" {
			return nil, fmt.Errorf("routing: capability %q: name, tag and description are required", c.Name)
		}
		texts[i] = c.Description
	}

	var err error
	if r.vectors, err = r.embed(ctx, texts); err != nil {
		return nil, fmt.Errorf("index capabilities: %w", err)
	}
	return r, nil
}

// embed calls the embedding function and checks its result, which may come from any
// program.
func (r *Router) embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := r.cfg.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("embed: %d vectors for %d texts", len(vectors), len(texts))
	}

	for _, v := range vectors {
		if len(v) == 0 || len(v) != len(vectors[0]) {
			return nil, errors.New("embed: vectors of different lengths")
		}
	}

	return vectors, nil
}

// Rank scores every capability against the need, best first; equal ones in
// their declared order. It knows no table.
func (r *Router) Rank(ctx context.Context, need string) ([]Candidate, error) {
	if strings.TrimSpace(need) == "" || len(need) > maxNeedBytes {
		return nil, ErrNeed
	}
	v, err := r.embed(ctx, []string{need})
	if err != nil {
		return nil, err
	}
	ranking := make([]Candidate, len(r.cfg.Capabilities))
	for i, c := range r.cfg.Capabilities {
		ranking[i] = Candidate{Name: c.Name, Tag: c.Tag, Score: cosine(v[0], r.vectors[i])}
	}
	slices.SortStableFunc(ranking, func(a, b Candidate) int { return cmp.Compare(b.Score, a.Score) })
	return ranking, nil
}

// Route finds the capability for a need among those that table reaches, and
// fills its form. Nothing is filled in for one that it does not reach.
func (r *Router) Route(ctx context.Context, table *pipeline.Table, need string) (Choice, error) {
	ranking, err := r.Rank(ctx, need)
	if err != nil {
		return Choice{}, err
	}
	end := slices.IndexFunc(ranking, func(c Candidate) bool { return c.Score < r.cfg.Threshold })
	if end >= 0 {
		ranking = ranking[:end]
	}
	choice := Choice{Ranking: ranking}
	r.cfg.Trace(StepRank, fmt.Sprintf("%d candidates", len(ranking)))
	if len(ranking) == 0 {
		return choice, ErrNoMatch
	}
	best := mask(ranking, table)
	r.cfg.Trace(StepMask, maskedNames(ranking))
	if best < 0 {
		return choice, ErrMasked
	}
	choice.Candidate = ranking[best]
	r.cfg.Trace(StepSelect, choice.Name)
	i := slices.IndexFunc(r.cfg.Capabilities, func(c Capability) bool { return c.Name == choice.Name && c.Tag == choice.Tag })
	choice.Payload, choice.FilledBy, err = r.fill(ctx, r.cfg.Capabilities[i], need)
	return choice, err
}

// Submit routes a need and calls dispatch, which must submit the choice in the thread
// of the table. Its errors are those of Route and dispatch.
func (r *Router) Submit(ctx context.Context, table *pipeline.Table, need string, dispatch func(context.Context, Choice) error) (Choice, error) {
	choice, err := r.Route(ctx, table, need)
	if err != nil {
		return choice, err
	}
	r.cfg.Trace(StepDispatch, choice.Name)
	return choice, dispatch(ctx, choice)
}

// mask marks the candidates that the table does not reach. It returns the index of the
// first one that it reaches, or -1.
func mask(ranking []Candidate, table *pipeline.Table) int {
	handlers := map[string]string{}
	for _, route := range table.Routes() {
		handlers[route.Tag] = route.Handler
	}

	best := -1
	for i := range ranking {
		c := &ranking[i]
		c.Masked = handlers[c.Tag] != c.Name
		if !c.Masked && best < 0 {
			best = i
		}
	}

	return best
}

func maskedNames(ranking []Candidate) string {
	var names []string
	for _, c := range ranking {
		if c.Masked {
			names = append(names, c.Name)
		}
	}
	return "masked: [" + strings.Join(names, " ") + "]"
}

// inWords is the name of the filler in a Choice that needed none.
const inWords = "in words"

// fill tries the fillers in order.
func (r *Router) fill(ctx context.Context, c Capability, need string) ([]byte, string, error) {
	if c.InWords {
		r.cfg.Trace(StepFill, inWords)
		return []byte(need), inWords, nil
	}

	var errs []error
	for _, f := range r.cfg.Fillers {
		r.cfg.Trace(StepFill, f.Name)
		payload, err := f.Fill(ctx, c, need)
		if err == nil && c.Check != nil {
			err = c.Check(payload)
		}
		if err == nil {
			return payload, f.Name, nil
		}
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}

		errs = append(errs, fmt.Errorf("%s: %w", f.Name, err))
	}

	return nil, "", fmt.Errorf("%w for %s: %w", ErrNoForm, c.Name, errors.Join(errs...))
}

func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}

	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}

	if aa == 0 || bb == 0 || math.IsNaN(dot) {
		return 0
	}
	return dot / math.Sqrt(aa*bb)
}
