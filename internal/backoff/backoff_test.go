package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause, began := time.Second, time.Now()
		for _, want := range []time.Duration{1, 3, 7, 12, 17} {
			if err := Wait(t.Context(), &pause, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want*time.Second {
				t.Errorf("waited %v in all, want %v", took, want*time.Second)
			}
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if err := Sleep(ctx, time.Hour); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}
