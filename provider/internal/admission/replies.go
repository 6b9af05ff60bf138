package admission

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// replies bounds how often bad requests of one key, and of all keys, are
// answered; another one, how often pings are. Keys are free to make, so the total
// matters most.
type replies struct {
	mu     sync.Mutex
	perMin int
	keys   map[string]*rate.Limiter
	all    *rate.Limiter
}

// replyKeys bounds the keys remembered; beyond it the memory starts anew.
const replyKeys = 10_000

func newReplies(perMin int) *replies {
	return &replies{perMin: perMin, keys: map[string]*rate.Limiter{}, all: rate.NewLimiter(rate.Limit(perMin)*10/60, perMin*10)}
}

// allow counts an answer to the key. known says whether it is a customer: what
// strangers use up is not theirs.
func (r *replies) allow(key string, now time.Time, known func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) >= replyKeys {
		clear(r.keys)
	}
	lim := r.keys[key]
	if lim == nil {
		lim = rate.NewLimiter(rate.Limit(r.perMin)/60, r.perMin)
		r.keys[key] = lim
	}
	return lim.AllowN(now, 1) && (r.all.AllowN(now, 1) || known())
}
