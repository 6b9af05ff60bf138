// Package backoff waits between the attempts of an operation that fails temporarily.
package backoff

import (
	"context"
	"time"
)

// Sleep waits for d and returns nil, or the cause if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait sleeps for *pause and then doubles it, up to most.
func Wait(ctx context.Context, pause *time.Duration, most time.Duration) error {
	d := *pause
	*pause = min(2*d, most)
	return Sleep(ctx, d)
}
