// Package recent provides a set of bounded size that keeps the latest names.
package recent

import "sync"

// Set holds the names that were added last. It is safe for concurrent use.
type Set struct {
	mu   sync.Mutex
	ids  map[string]struct{}
	ring []string
	next int
}

// New returns a set of at most size names.
func New(size int) *Set {
	return &Set{ids: make(map[string]struct{}, size), ring: make([]string, size)}
}

// Add adds a name and reports whether it is new. If the set is full, the oldest
// name is removed.
func (s *Set) Add(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ids[id]; ok {
		return false
	}
	delete(s.ids, s.ring[s.next])
	s.ids[id] = struct{}{}
	s.ring[s.next] = id
	s.next = (s.next + 1) % len(s.ring)
	return true
}

// Has reports whether a name is in the set.
func (s *Set) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}

// Remove removes a name.
func (s *Set) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, id)
}
