// Package backoff spaces out attempts at what fails for now.
package backoff

import (
	"context"
	"time"
)

// Sleep waits for d and returns nil, or the reason why ctx ended first.
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

// Wait is [Sleep] for *pause, which it doubles for the next time, up to most.
func Wait(ctx context.Context, pause *time.Duration, most time.Duration) error {
	d := *pause
	*pause = min(2*d, most)
	return Sleep(ctx, d)
}
