package relay

import "encoding/hex"

// seenIDs is how many event ids a subscription remembers at least. If the overlap
// after a reconnect holds more, some events are delivered twice.
const seenIDs = 1 << 16

// seen remembers ids in two generations: when the young one is full it becomes
// the old one, and the old one is forgotten.
type seen struct {
	max        int
	young, old map[[32]byte]struct{}
}

func newSeen(limit int) *seen {
	return &seen{max: limit, young: map[[32]byte]struct{}{}}
}

func (s *seen) has(id string) bool {
	k := key(id)
	if _, ok := s.young[k]; ok {
		return true
	}
	_, ok := s.old[k]
	return ok
}

func (s *seen) add(id string) {
	if len(s.young) >= s.max {
		s.old, s.young = s.young, map[[32]byte]struct{}{}
	}
	s.young[key(id)] = struct{}{}
}

// key decodes an id that the parser has checked.
func key(id string) (k [32]byte) {
	_, _ = hex.Decode(k[:], []byte(id))
	return k
}
