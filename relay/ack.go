package relay

import (
	"context"
	"errors"
)

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
	if len(waiting) == 0 {
		s.link.gate.late(a)
	}
	for _, c := range waiting {
		c <- a // capacity 1, and taken out of the map
	}
}

// publish sends an event when the relay wants it and waits for its OK. The answer
// of one that could not be sent in time is the relay's refusal of others; one that
// is not needed any more (ErrTimeout) was not refused.
func (s *session) publish(ctx context.Context, id string, doc []byte) (ack, error) {
	g := s.link.gate
	p, err := g.enter(ctx, s.done)
	if text := g.refusal(); errors.Is(err, ErrTimeout) && text != "" && !errors.Is(ctx.Err(), context.Canceled) {
		return ack{text: text}, nil
	}
	if err != nil {
		return ack{}, err
	}
	a, err := s.exchange(ctx, id, doc)
	g.leave(p, a)
	return a, err
}

// exchange sends a message with an event and waits for its OK.
func (s *session) exchange(ctx context.Context, id string, doc []byte) (ack, error) {
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
