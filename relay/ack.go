package relay

import "context"

// maxPublishing bounds the events that wait for the OK of one relay.
const maxPublishing = 256

// ack is a relay's answer to an event.
type ack struct {
	accepted bool
	text     string
}

func (s *session) onOK(id string, a ack) {
	s.mu.Lock()
	waiting := s.acks[id]
	delete(s.acks, id)
	s.mu.Unlock()
	for _, c := range waiting {
		c <- a // capacity 1, and taken out of the map
	}
}

// publish sends an event and waits for its OK.
func (s *session) publish(ctx context.Context, id string, doc []byte) (ack, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.done:
		return ack{}, ErrDisconnected
	case <-ctx.Done():
		return ack{}, ErrTimeout
	}
	answer := make(chan ack, 1)
	s.mu.Lock()
	s.acks[id] = append(s.acks[id], answer)
	s.send(doc)
	s.mu.Unlock()
	select {
	case a := <-answer:
		return a, nil
	case <-s.done:
		return ack{}, ErrDisconnected
	case <-ctx.Done():
		s.giveUp(id, answer)
		return ack{}, ErrTimeout
	}
}

func (s *session) giveUp(id string, answer chan ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.acks[id][:0]
	for _, c := range s.acks[id] {
		if c != answer {
			rest = append(rest, c)
		}
	}
	if s.acks[id] = rest; len(rest) == 0 {
		delete(s.acks, id)
	}
}
