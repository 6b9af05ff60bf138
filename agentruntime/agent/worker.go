package agent

import (
	"context"
	"time"
)

const (
	// spareWorkers wait to read; those above them end with their call.
	spareWorkers = 4
	// quickCall bounds the calls of a tool that holds up the reading, and
	// turnCheck is how often it is looked whether one does so longer.
	quickCall = 200 * time.Microsecond
	turnCheck = 2 * time.Millisecond
)

// worker reads until it has a call, and runs it. One goroutine at a time has
// the turn to read; a worker begins with it. Waking another one costs more
// than a short call, so a call that is alone, of a tool whose last call was
// quick, is run by a worker that keeps the turn, until checkTurn finds that it
// takes too long. Before any other call the turn is passed on. The worker that
// sees the end of the connection ends all that wait for the turn.
func (s *Session) worker(ctx context.Context) {
	for more := true; more; {
		c, err := s.nextCall(ctx)
		if err != nil {
			s.endTurns()
			s.ended <- err
			return
		}
		s.keepOrPass(ctx, c)
		s.runCall(c)
		more = s.keeps(c) || s.awaitTurn()
	}
}

func (s *Session) keepOrPass(ctx context.Context, c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.tool.quick.Load() || len(s.calls) > 1 || s.in.Buffered() {
		s.passTurn(ctx)
		return
	}
	s.kept = c
	if !s.checking {
		s.checking = true
		time.AfterFunc(turnCheck, func() { s.checkTurn(ctx) })
	}
}

// checkTurn passes the turn on if a call has kept it since the last look, and
// looks again if another one does.
func (s *Session) checkTurn(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil && s.kept == s.seen {
		s.kept = nil
		s.passTurn(ctx)
	}
	s.seen = s.kept
	if s.checking = s.kept != nil; s.checking {
		time.AfterFunc(turnCheck, func() { s.checkTurn(ctx) })
	}
}

// keeps reports whether the turn is still with the worker that has run c.
func (s *Session) keeps(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.kept == c
	if kept {
		s.kept = nil
	}
	return kept
}

// passTurn gives the turn to a worker that waits, or to a new one. The lock is
// held.
func (s *Session) passTurn(ctx context.Context) {
	if s.idle == 0 {
		go s.worker(ctx)
		return
	}
	s.idle--
	s.turn <- struct{}{} // has room: there is one turn
}

// awaitTurn reports whether the worker has the turn. The stack of a new worker
// is small and is copied several times until it holds a call: a few are worth
// keeping.
func (s *Session) awaitTurn() bool {
	s.mu.Lock()
	stay := s.idle < spareWorkers && !s.over
	if stay {
		s.idle++
	}
	s.mu.Unlock()
	if !stay {
		return false
	}
	_, more := <-s.turn
	return more
}

func (s *Session) endTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	close(s.turn)
}
