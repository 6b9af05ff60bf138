// Package roles runs the parts of a node beside each other. A part that fails is told
// of and tried again, and the others go on without it.
package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// Role is a part of a node that works beside others.
type Role interface {
	// Start opens what the role works with. It may be called again after Stop.
	Start(ctx context.Context) error
	// Serve works until ctx ends. A [Finished] means that nothing is left to do.
	Serve(ctx context.Context) error
	// Stop closes what Start opened, also after a Start that failed half way.
	Stop(ctx context.Context) error
	// Lacks says what a role that runs cannot do now, "" if it lacks nothing. It is
	// called at any time between Start and Stop, and must not block.
	Lacks() string
}

// Part is a role of a node under its name.
type Part struct {
	Name string
	Role
	// Vital reports that the node must not go on without the role, which has just
	// failed: money would be lost. Nil: it may.
	Vital func(ctx context.Context, failed error) bool
}

// Finished ends the Serve of a role that has done its work. The role is not begun again.
type Finished struct{ Why string }

func (f *Finished) Error() string { return f.Why }

// State is how far a role is.
type State string

// States of a role.
const (
	Starting State = "starting"
	Running  State = "running"
	Failed   State = "failed" // and tried again
	Done     State = "done"
)

// Status is a role as it is now.
type Status struct {
	Role  string    `json:"role"`
	State State     `json:"state"`
	Why   string    `json:"why,omitempty"`  // it failed or is done, or what it lacks while it runs
	Hint  string    `json:"hint,omitempty"` // what to do about that
	Since time.Time `json:"since"`
	Again time.Time `json:"again,omitzero"` // when a role that failed is tried again
}

// A role that failed is tried again after firstPause, and twice as late after each
// further failure.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// Set are the roles of one node, in the order of their start. Its Status may be asked
// at any time.
type Set struct {
	parts  []*part
	strict bool
	log    *slog.Logger
	begun  chan struct{} // closed once each role was started, or has failed to
}

// part is a role with how far it is. Only Run's goroutine changes it.
type part struct {
	Part
	pause time.Duration
	stop  context.CancelFunc // of its Serve; nil while it does not serve
	ended chan struct{}      // closed once Serve has returned

	mu     sync.Mutex
	status Status
}

// ending is a Serve that has returned.
type ending struct {
	*part
	err error
}

// New is a set of roles that do not run yet. A strict one ends with the first role that
// fails.
func New(strict bool, log *slog.Logger, parts ...Part) *Set {
	s := &Set{strict: strict, log: log, begun: make(chan struct{})}
	for _, p := range parts {
		s.parts = append(s.parts, &part{Part: p, pause: firstPause, status: Status{Role: p.Name, State: Starting, Since: time.Now()}})
	}
	return s
}

// Begun is closed once each role has begun, or has failed to begin.
func (s *Set) Begun() <-chan struct{} { return s.begun }

// Status is how far each role is.
func (s *Set) Status() []Status {
	all := make([]Status, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p.now())
	}
	return all
}

func (p *part) now() Status {
	p.mu.Lock()
	defer p.mu.Unlock()

	st := p.status
	if st.State == Running {
		st.Why = p.Lacks()
	}
	return st
}

func (p *part) is(state State, why string, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = Status{Role: p.Name, State: state, Why: why, Since: time.Now(), Again: again}
}

func (p *part) hint(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Hint = text
}

// Run starts the roles in their order, keeps them up until ctx ends, and stops them in
// the opposite order, each once those after it have stopped. A set runs once.
func (s *Set) Run(ctx context.Context) error {
	ends := make(chan ending, len(s.parts))
	var wrong error
	for _, p := range s.parts {
		if wrong = s.begin(ctx, p, ends); wrong != nil || ctx.Err() != nil {
			break
		}
	}
	if wrong == nil {
		close(s.begun)
		wrong = s.watch(ctx, ends)
	}

	for i := len(s.parts) - 1; i >= 0; i-- {
		wrong = errors.Join(wrong, s.parts[i].end(ctx))
	}
	if wrong != nil && ctx.Err() != nil {
		s.log.Warn("the node has stopped, with an error", "err", wrong)
		return nil
	}
	return wrong
}

// begin starts a role. The error is one that the node does not survive.
func (s *Set) begin(ctx context.Context, p *part, ends chan<- ending) error {
	p.is(Starting, "", time.Time{})
	if err := p.Start(ctx); err != nil {
		return s.failed(ctx, p, errors.Join(err, p.Stop(context.WithoutCancel(ctx))))
	}

	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	p.stop, p.ended = stop, ended
	p.is(Running, "", time.Time{})
	go func() {
		err := p.Serve(serve)
		close(ended)
		ends <- ending{p, err} // there is room for one of each role
	}()
	return nil
}

// end stops a role that serves; it is fine with one that does not.
func (p *part) end(ctx context.Context) error {
	if p.stop == nil {
		return nil
	}
	p.stop()
	<-p.ended
	p.stop = nil

	p.is(Done, "", time.Time{}) // before Stop: Lacks is not called any more
	if err := p.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	return nil
}

// watch begins roles again that failed, until ctx ends or one fails that the node does
// not survive.
func (s *Set) watch(ctx context.Context, ends chan ending) error {
	for {
		due, wake := s.due()
		for _, p := range due {
			if err := s.begin(ctx, p, ends); err != nil || ctx.Err() != nil {
				return err
			}
		}
		if len(due) > 0 {
			continue
		}

		select {
		case e := <-ends:
			if err := s.ended(ctx, e); err != nil {
				return err
			}
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// due are the roles to try again now; wake is when to look again.
func (s *Set) due() (due []*part, wake <-chan time.Time) {
	next := time.Time{}
	for _, p := range s.parts {
		p.mu.Lock()
		again := p.status.Again
		p.mu.Unlock()

		switch {
		case again.IsZero():
		case !time.Now().Before(again):
			due = append(due, p)
		case next.IsZero() || again.Before(next):
			next = again
		}
	}

	if next.IsZero() {
		return due, nil
	}
	return due, time.After(time.Until(next))
}

// ended takes note of a role whose Serve has returned by itself.
func (s *Set) ended(ctx context.Context, e ending) error {
	since := e.now().Since
	stop := e.end(ctx)
	if finished := (*Finished)(nil); errors.As(e.err, &finished) {
		if s.strict {
			return errors.Join(e.err, stop)
		}
		e.is(Done, finished.Why, time.Time{})
		return stop
	}

	if e.err == nil {
		e.err = errors.New("it ended by itself")
	}
	if time.Since(since) > mostPause { // it has worked: what failed is something new
		e.pause = firstPause
	}
	return s.failed(ctx, e.part, errors.Join(e.err, stop))
}

// failed returns the error if the node does not survive it, else the role is tried again
// later.
func (s *Set) failed(ctx context.Context, p *part, err error) error {
	if ctx.Err() != nil { // the stop of the node interrupted it
		return nil
	}
	if s.strict || p.Vital != nil && p.Vital(ctx, err) {
		return err
	}

	p.is(Failed, err.Error(), time.Now().Add(p.pause))
	if coded := (*advice.Error)(nil); errors.As(err, &coded) {
		p.hint(coded.Hint)
	}
	s.log.Warn("a role does not run; the others go on", "role", p.Name, "err", err, "again_in", p.pause)
	p.pause = min(2*p.pause, mostPause)
	return nil
}
