package buying

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/lease"
)

const (
	// lookInterval is how often the running buyer looks for purchases that nobody works
	// on. One that was idle at two looks is taken: a command may just have placed it.
	lookInterval = time.Second
	// retryFirst and retryMost are the pauses before a purchase is tried again that could
	// not be ended.
	retryFirst, retryMost = 5 * time.Second, 5 * time.Minute
	// keptSteps bounds what is kept of a purchase for those who begin to look on later.
	keptSteps = 1024
	maxBody   = 4 << 10
	// nodeLease is the lease of the one buyer that runs on a data folder.
	nodeLease = "running-buyer"
)

// Server is a buyer that runs: it works on every purchase that no other process works on,
// and on those that commands hand to it.
type Server struct {
	desk  *Desk
	log   *slog.Logger
	ready func()

	mu   sync.Mutex
	ctx  context.Context // until the server stops
	g    *errgroup.Group
	jobs map[string]*job      // by unit, that are worked on
	idle map[string]time.Time // by unit, when each may be taken
	wait map[string]time.Duration
}

// NewServer makes one. Serve starts it, and calls ready once it has the data folder.
func NewServer(d *Desk, log *slog.Logger, ready func()) *Server {
	return &Server{desk: d, log: log, ready: ready, jobs: map[string]*job{}, idle: map[string]time.Time{}, wait: map[string]time.Duration{}}
}

// job is the work on one unit.
type job struct {
	mu      sync.Mutex
	steps   []frame
	changed chan struct{} // closed at each step
}

func (j *job) add(f frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.steps) < keptSteps || f.End != nil {
		j.steps = append(j.steps, f)
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// from are the steps from a number on, and what says that there are more.
func (j *job) from(n int) ([]frame, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.steps[n:], j.changed
}

// Serve works until ctx ends, and answers commands on a socket of this user's alone.
// *[lease.HeldError] while another buyer runs on the data folder.
func (s *Server) Serve(ctx context.Context, socket string) error {
	held, err := s.desk.Leases.Take(nodeLease)
	if err != nil {
		return err
	}
	defer func() { _ = held.Release() }()

	g, gctx := errgroup.WithContext(ctx)
	s.mu.Lock()
	s.ctx, s.g = gctx, g
	s.mu.Unlock()
	s.ready()
	g.Go(func() error { return s.takeIdle(gctx) })
	g.Go(func() error {
		err := host.ServeControl(gctx, socket, s.handler())
		if err == nil && gctx.Err() == nil {
			err = errors.New("the control socket was closed")
		}
		return err
	})
	err = g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// takeIdle looks for purchases that nobody works on.
func (s *Server) takeIdle(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()

	for {
		ids, err := s.desk.Open(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("look for open purchases: %w", err)
		}
		for _, id := range ids {
			if s.isIdle(ctx, id) {
				if _, err := s.take(ctx, id); err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrHeld) {
					s.log.Warn("an open purchase is not taken", "purchase", id, "err", err)
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// isIdle reports whether nobody works on a purchase, now and a while ago, and its pause is
// over.
func (s *Server) isIdle(ctx context.Context, id string) bool {
	unit, err := s.desk.unit(ctx, id)
	if err != nil {
		return false
	}
	_, held, err := s.desk.Leases.Holder(unit)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, seen := s.idle[unit]
	switch {
	case err != nil || held:
		delete(s.idle, unit)
		return false
	case !seen:
		s.idle[unit] = time.Now().Add(lookInterval)
		return false
	}
	return time.Now().After(at)
}

// take works on a purchase from now on, or finds the work on it.
func (s *Server) take(ctx context.Context, id string) (*job, error) {
	unit, err := s.desk.unit(ctx, id)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[unit]; j != nil {
		return j, nil
	}
	held, err := s.desk.Leases.Take(unit)
	if err != nil {
		return nil, err
	}
	if s.ctx == nil || s.ctx.Err() != nil {
		return nil, errors.Join(errGone, held.Release())
	}

	j := &job{changed: make(chan struct{})}
	s.jobs[unit] = j
	s.g.Go(func() error {
		s.work(s.ctx, unit, id, j, held)
		return nil
	})
	return j, nil
}

// work follows a purchase or panel to its end. What cannot be ended now is tried again.
func (s *Server) work(ctx context.Context, unit, id string, j *job, held *lease.Lease) {
	var err error
	if strings.HasPrefix(unit, panelPrefix) {
		_, err = s.desk.followPanel(ctx, unit, held, func(member string, p buyer.Progress) { j.add(frame{Member: member, Step: &p}) })
	} else {
		_, err = s.desk.followOrder(ctx, id, held, func(p buyer.Progress) { j.add(frame{Step: &p}) })
	}
	if ctx.Err() == nil {
		j.add(frame{End: endOf(err)})
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, unit)
	pause := max(s.wait[unit], retryFirst)
	s.idle[unit], s.wait[unit] = time.Now().Add(pause), min(2*pause, retryMost)
	if err == nil || errors.Is(err, buyer.ErrFailed) {
		delete(s.idle, unit)
		delete(s.wait, unit)
	}
	s.log.Info("the work on a purchase has ended", "purchase", unit, "err", err)
}

// handler answers commands.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/take", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.asked(w, r); ok {
			_, _ = w.Write([]byte("{}\n"))
		}
	})
	mux.HandleFunc("POST /v1/follow", func(w http.ResponseWriter, r *http.Request) {
		if j, ok := s.asked(w, r); ok {
			s.stream(w, r, j)
		}
	})
	return mux
}

// asked reads what a request is about, and takes it.
func (s *Server) asked(w http.ResponseWriter, r *http.Request) (*job, bool) {
	var req named
	if err := jsonv2.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxBody), &req, jsonv2.RejectUnknownMembers(true)); err != nil {
		http.Error(w, "the request is not {\"id\": ...}: "+err.Error(), http.StatusBadRequest)
		return nil, false
	}
	j, err := s.take(r.Context(), req.ID)
	switch {
	case err == nil:
		return j, true
	case errors.Is(err, lease.ErrHeld), errors.Is(err, errGone):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return nil, false
}

// stream writes the steps of a job until it has ended, or the command is gone.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, j *job) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, n := json.NewEncoder(w), 0
	for {
		steps, more := j.from(n)
		for _, f := range steps {
			if out.Encode(f) != nil || f.End != nil {
				return
			}
		}
		n += len(steps)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
