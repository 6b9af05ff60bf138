package server

import (
	"encoding/hex"
	"sync"
)

// recentIDs is how many ids are remembered at least, and half of how many at
// most.
const recentIDs = 1 << 15

// recent remembers the ids of the events that were stored last, in two
// generations: what comes twice mostly does so soon. It spares others the
// question to the store. It is a hint: a remembered event may be gone.
type recent struct {
	mu         sync.Mutex
	young, old map[[32]byte]struct{}
}

func newRecent() *recent { return &recent{young: map[[32]byte]struct{}{}} }

func (r *recent) has(id string) bool {
	k := idKey(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[k]; ok {
		return true
	}
	_, ok := r.old[k]
	return ok
}

func (r *recent) add(id string) {
	k := idKey(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= recentIDs {
		r.old, r.young = r.young, map[[32]byte]struct{}{}
	}
	r.young[k] = struct{}{}
}

// idKey decodes an id that the parser has checked.
func idKey(id string) (k [32]byte) {
	_, _ = hex.Decode(k[:], []byte(id))
	return k
}
