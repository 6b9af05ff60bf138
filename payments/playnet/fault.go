package playnet

import (
	"net/http"
	"time"
)

// FaultKind is how a scripted failure shows itself.
type FaultKind int

// The kinds of failure.
const (
	// FaultRefuse answers that the wallet is unavailable; nothing happens.
	FaultRefuse FaultKind = iota + 1
	// FaultDropBefore cuts the connection; nothing happens.
	FaultDropBefore
	// FaultDropAfter does what was asked and cuts the connection in place of
	// the answer: the reply is lost.
	FaultDropAfter
	// FaultDelay waits before it does what was asked.
	FaultDelay
)

// Fault is a failure for the next Count calls of a method (1 if Count is 0).
type Fault struct {
	Method string // one of the Method constants
	Kind   FaultKind
	Count  int
	Delay  time.Duration // for FaultDelay
}

// Script adds a fault, for tests. Faults of one method happen in the order in
// which they were added. It is not reachable over HTTP.
func (s *Server) Script(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Count = max(f.Count, 1)
	s.faults[f.Method] = append(s.faults[f.Method], f)
}

// ClearScript forgets all faults that have not happened.
func (s *Server) ClearScript() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.faults)
}

// takeFault takes one failure of the method off the script; 0 is none.
func (s *Server) takeFault(method string) (FaultKind, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.faults[method]
	if len(list) == 0 {
		return 0, 0
	}
	f := list[0]
	list[0].Count--
	if list[0].Count == 0 {
		s.faults[method] = list[1:]
	}
	return f.Kind, f.Delay
}

// discard is where the answer goes that the caller is not to get.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// withFaults plays the script around a handler.
func (s *Server) withFaults(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, delay := s.takeFault(method)
		switch kind {
		case FaultRefuse:
			writeError(w, errScripted)
			return
		case FaultDropBefore:
			panic(http.ErrAbortHandler)
		case FaultDropAfter:
			next(discard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		case FaultDelay:
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
				return
			}
		}
		next(w, r)
	}
}
