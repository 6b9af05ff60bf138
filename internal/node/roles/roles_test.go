package roles

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// journal is what roles did, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// role is a role of a test: it fails to start so often, and serves until it is told how
// that ends.
type role struct {
	name  string
	all   *journal
	fails int
	ends  chan error
}

func newRole(all *journal, name string, fails int) *role {
	return &role{name: name, all: all, fails: fails, ends: make(chan error)}
}

func (r *role) Start(context.Context) error {
	if r.fails > 0 {
		r.fails--
		r.all.note(r.name + " fails")
		return advice.Hint(errors.New("no "+r.name), "give it one")
	}
	r.all.note(r.name + " starts")
	return nil
}

func (r *role) Serve(ctx context.Context) error {
	select {
	case err := <-r.ends:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *role) Stop(context.Context) error {
	r.all.note(r.name + " stops")
	return nil
}

func (r *role) Lacks() string { return "" }

// running has a set work in the background; stop ends it and returns how.
func running(t *testing.T, s *Set) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-ended
	}
}

func states(s *Set) (all []State) {
	for _, st := range s.Status() {
		all = append(all, st.State)
	}
	return all
}

func expect[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestRoleThatFailsCostsOnlyItself: the others start and go on, it is tried again later
// and later, and all stop in the opposite order.
func TestRoleThatFailsCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &journal{}
		s := New(false, slog.New(slog.DiscardHandler),
			Part{Name: "a", Role: newRole(all, "a", 0)}, Part{Name: "b", Role: newRole(all, "b", 2)}, Part{Name: "c", Role: newRole(all, "c", 0)})
		stop := running(t, s)
		expect(t, "at first", states(s), []State{Running, Failed, Running})
		if st := s.Status()[1]; st.Why != "no b" || st.Hint != "give it one" || !st.Again.Equal(time.Now().Add(firstPause)) {
			t.Errorf("b is %+v", st)
		}

		time.Sleep(firstPause)
		synctest.Wait()
		expect(t, "after one pause", states(s), []State{Running, Failed, Running})
		time.Sleep(2 * firstPause)
		synctest.Wait()
		expect(t, "after two", states(s), []State{Running, Running, Running})
		if st := s.Status()[1]; st.Why != "" || !st.Again.IsZero() {
			t.Errorf("b is %+v", st)
		}

		if err := stop(); err != nil {
			t.Error(err)
		}
		expect(t, "what happened", all.lines, []string{
			"a starts", "b fails", "b stops", "c starts", "b fails", "b stops", "b starts", "c stops", "b stops", "a stops",
		})
	})
}

// TestRoleThatEnds: one that breaks is stopped and begun again, one that has finished is
// not.
func TestRoleThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &journal{}
		a, b := newRole(all, "a", 0), newRole(all, "b", 0)
		s := New(false, slog.New(slog.DiscardHandler), Part{Name: "a", Role: a}, Part{Name: "b", Role: b})
		stop := running(t, s)

		a.ends <- errors.New("broken")
		synctest.Wait()
		b.ends <- &Finished{Why: "drained"}
		synctest.Wait()
		expect(t, "then", states(s), []State{Failed, Done})
		if why := s.Status()[1].Why; why != "drained" {
			t.Errorf("b is done because %q", why)
		}

		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, "later", states(s), []State{Running, Done})
		if err := stop(); err != nil {
			t.Error(err)
		}
		expect(t, "what happened", all.lines, []string{"a starts", "b starts", "a stops", "b stops", "a starts", "a stops"})
	})
}

// TestRoleThatMustNotFail: without a vital role, and without any role of a strict set,
// nothing goes on.
func TestRoleThatMustNotFail(t *testing.T) {
	for name, strict := range map[string]bool{"vital": false, "strict": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &journal{}
				b := newRole(all, "b", 0)
				vital := func(context.Context, error) bool { return true }
				if strict {
					vital = nil
				}
				s := New(strict, slog.New(slog.DiscardHandler), Part{Name: "a", Role: newRole(all, "a", 0)}, Part{Name: "b", Role: b, Vital: vital})
				ended := make(chan error, 1)
				go func() { ended <- s.Run(t.Context()) }()

				broken := errors.New("broken")
				b.ends <- broken
				if err := <-ended; !errors.Is(err, broken) {
					t.Errorf("ended with %v", err)
				}
				expect(t, "what happened", all.lines, []string{"a starts", "b starts", "b stops", "a stops"})

				b.fails = 1
				s = New(strict, slog.New(slog.DiscardHandler), Part{Name: "b", Role: b, Vital: vital})
				if err := s.Run(t.Context()); err == nil || err.Error() != "no b" {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// TestStopInTheMiddle: a node that is stopped while a role starts begins no further one.
func TestStopInTheMiddle(t *testing.T) {
	all := &journal{}
	ctx, cancel := context.WithCancel(t.Context())
	a := &interrupted{newRole(all, "a", 1), cancel}
	s := New(false, slog.New(slog.DiscardHandler), Part{Name: "a", Role: a}, Part{Name: "b", Role: newRole(all, "b", 0)})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	expect(t, "what happened", all.lines, []string{"a fails", "a stops"})
}

// interrupted is a role whose start the operator interrupts.
type interrupted struct {
	*role
	cancel context.CancelFunc
}

func (r *interrupted) Start(ctx context.Context) error {
	r.cancel()
	return r.role.Start(ctx)
}
