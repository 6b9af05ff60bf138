package agent

// spareWorkers wait for the next call; those above them end with their call.
const spareWorkers = 4

// start runs an admitted call on a worker that waits, or on a new one. The
// stack of a new one is small and is copied several times until it holds a
// call: that is worth keeping.
func (s *Session) start(c *Call) {
	select {
	case s.work <- c:
	default:
		go s.worker(c)
	}
}

// worker runs c, and then what start gives it until the reader has ended.
func (s *Session) worker(c *Call) {
	for more := true; more; {
		s.runCall(c)
		select {
		case s.spare <- struct{}{}:
		default:
			return
		}
		c, more = <-s.work
		<-s.spare
	}
}
