package relay

import (
	"strings"
	"time"
)

// refused is called when the relay ends the live REQ.
func (t *tail) refused(text string) {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	if t.sub.closed || t.session == nil {
		return
	}
	t.rest(now())
	t.dropPage()
	t.liveID = ""
	t.later(text)
}

// later asks the relay again, soon if its reason may pass by itself.
func (t *tail) later(text string) {
	if on := t.session; wantsAuth(text) && on.canProve() {
		on.afterAuth(func(err error) {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			switch {
			case t.sub.closed || t.session != on:
			case err != nil:
				t.askAfter(t.sub.pool.cfg.MaxBackoff)
			default:
				t.again(on)
			}
		})
		return
	}
	delay := t.sub.pool.cfg.MaxBackoff
	prefix, _, _ := strings.Cut(text, ":")
	switch prefix {
	case "auth-required", "restricted", "blocked", "unsupported", "invalid", "pow":
	default:
		delay = t.sub.pool.cfg.backoff(t.refusals)
		t.refusals++
	}
	t.askAfter(delay)
}

// askAfter asks the same connection again; t.sub.mu is held.
func (t *tail) askAfter(delay time.Duration) {
	on := t.session
	t.stopRetry()
	t.retry = time.AfterFunc(delay, func() {
		t.sub.mu.Lock()
		defer t.sub.mu.Unlock()
		if !t.sub.closed && t.session == on {
			t.again(on)
		}
	})
}

// again begins anew on a connection; t.sub.mu is held.
func (t *tail) again(on *session) {
	if t.liveID != "" {
		on.forget(t.liveID)
	}
	t.attach(on)
}

func (t *tail) stopRetry() {
	if t.retry != nil {
		t.retry.Stop()
		t.retry = nil
	}
}
