package supervisor

import "time"

// intensity decides about restarts. It is used by one goroutine.
type intensity struct {
	policy RestartPolicy
	recent []time.Time // restarts within the window, oldest first
}

// next counts a restart at now and gives the wait before it; ok is false when
// the policy allows none.
func (i *intensity) next(now time.Time) (wait time.Duration, ok bool) {
	for len(i.recent) > 0 && now.Sub(i.recent[0]) >= i.policy.Window {
		i.recent = i.recent[1:]
	}
	if i.policy.Never || len(i.recent) >= i.policy.Max {
		return 0, false
	}

	wait = i.policy.MinBackoff
	for range len(i.recent) {
		if wait *= 2; wait >= i.policy.MaxBackoff {
			wait = i.policy.MaxBackoff
			break
		}
	}

	i.recent = append(i.recent, now)
	return wait, true
}

func (i *intensity) reset() { i.recent = nil }
