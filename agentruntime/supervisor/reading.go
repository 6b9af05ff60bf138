package supervisor

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// lendFor is how long the turn to read may lie unused before readLoop takes it
// back: what comes unasked waits at most twice as long.
const lendFor = time.Millisecond

// turns says who reads the session. Waking a caller costs more than reading
// its result, so a caller whose call is alone reads that itself.
//
// There is one turn, and it is in one of three places. readLoop has it at first
// and as long as calls overlap or are rare. Or it is free, for 2*lendFor at
// most: then a caller may take it, and otherwise readLoop takes it back. Or a
// caller has it, until its call has ended or is given up: if that was soon and
// no other call is in flight, it frees the turn, and else hands it to readLoop,
// as it does with all that is not its business: the end of the connection, and
// messages that take long to handle. So whatever callers do, readLoop sees the
// end.
//
// All but back is under the session's lock; session.in belongs to the turn.
type turns struct {
	free   bool
	taken  int           // how often callers took it
	reader *inflight     // whose caller has it
	halted bool          // that caller was told to stop, by a read deadline
	wanted bool          // that caller is to hand the turn back
	result time.Time     // when the last result was read by readLoop
	back   chan handBack // has room for one: there is one turn
}

// handBack is how a caller gives the turn to readLoop, which goes on with
// either of the two, if there is one.
type handBack struct {
	msg *wire.Message
	err error
}

// readLoop reads while no caller does, and until the connection is over.
func (s *session) readLoop() error {
	for {
		msg, err := s.next()
		if err == nil && s.dispatch(msg) && s.lend() {
			var h handBack
			if h = s.takeBack(); h.msg != nil {
				s.dispatch(h.msg)
			}
			err = h.err
		}
		if err != nil {
			return err
		}
	}
}

// next reads one message that can be decoded; an error is the end. The turn is
// the caller's.
func (s *session) next() (*wire.Message, error) {
	for !s.tooManyViolations() {
		payload, err := s.in.Next()
		if err != nil {
			return nil, s.readError(err)
		}
		msg, err := wire.Decode(payload, wire.Agent)
		var refused *wire.DecodeError
		if !errors.As(err, &refused) {
			return msg, nil
		}
		if !s.handleUndecoded(refused) {
			break
		}
	}

	return nil, errViolation
}

// lend frees the turn after a result if calls follow each other closely and
// none is in flight.
func (s *session) lend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.turns.free = len(s.calls) == 0 && now.Sub(s.turns.result) < 2*lendFor
	s.turns.result = now
	return s.turns.free
}

// takeBack returns when readLoop has the turn again.
func (s *session) takeBack() handBack {
	tick := time.NewTicker(lendFor)
	defer tick.Stop()

	for before, same := -1, false; !same; {
		select {
		case h := <-s.turns.back:
			return h
		case <-tick.C:
		}

		s.mu.Lock()
		if same = s.turns.taken == before; same && s.turns.free {
			s.turns.free = false
			s.mu.Unlock()
			return handBack{}
		}
		s.turns.wanted = same
		before = s.turns.taken
		s.mu.Unlock()
	}

	return <-s.turns.back // a caller reads for long: no more ticks
}

// readFor takes the turn, if it is free, and reads until c has its outcome or
// is given up, or what comes is for readLoop.
func (s *session) readFor(ctx context.Context, c *inflight, timeout time.Duration) {
	if !s.takeTurn(c) {
		return
	}
	halt := func() { s.halt(c) }
	timer := time.AfterFunc(timeout, halt)
	defer timer.Stop()
	defer context.AfterFunc(ctx, halt)()

	var h handBack
	for len(c.outcome) == 0 && h == (handBack{}) {
		msg, err := s.next()
		switch {
		case err != nil:
			h.err = err
		case msg.Type() == wire.TypeRegister: // it has schemas to compile
			h.msg = msg
		default:
			s.dispatch(msg)
		}
	}

	s.leaveTurn(h)
}

func (s *session) takeTurn(c *inflight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.turns.free {
		return false
	}
	s.turns.free = false
	s.turns.taken++
	s.turns.reader = c
	return true
}

// halt ends the reading for c, if it goes on.
func (s *session) halt(c *inflight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns.reader == c {
		s.turns.halted = true
		// Only a closed connection has no deadlines, and nobody waits there.
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (s *session) leaveTurn(h handBack) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.turns.halted {
		_ = s.conn.SetReadDeadline(time.Time{}) // as above
	}
	wanted := s.turns.wanted
	s.turns.reader, s.turns.halted, s.turns.wanted = nil, false, false
	if errors.Is(h.err, os.ErrDeadlineExceeded) {
		h.err = nil // in the middle of a frame, perhaps: the reader goes on there
	}
	if s.turns.free = h == (handBack{}) && len(s.calls) == 0 && !wanted; !s.turns.free {
		s.turns.back <- h
	}
}
