package run

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestDeadline: a job that was begun keeps its deadline, a new one has as long as it may
// wait and take, and a held payment cuts both.
func TestDeadline(t *testing.T) {
	e := New(Config{StartIn: time.Hour})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	takes := time.Minute + margin // a request that states no limit gets a minute
	quoted := job.Job{State: job.StateQuoted, AddedAt: now, Charge: job.Charge{ExpiresAt: now.Add(24 * time.Hour)}}
	paid := job.Job{State: job.StatePaid, StateAt: now.Add(time.Minute)}
	withFee, soonOver, begun := quoted, quoted, paid
	withFee.Engagement = &job.Charge{}
	soonOver.ExpiresAt = now.Add(time.Second)
	begun.Deadline = now.Add(3 * time.Hour)
	for name, tt := range map[string]struct {
		j    job.Job
		held time.Time
		want time.Duration
	}{
		"quoted":                 {quoted, time.Time{}, time.Hour + takes},
		"quoted with a fee":      {withFee, time.Time{}, 2*time.Hour + takes},
		"quoted, soon over":      {soonOver, time.Time{}, time.Second + takes},
		"paid":                   {paid, time.Time{}, time.Hour + time.Minute + takes},
		"paid, held for less":    {paid, now.Add(time.Minute), time.Minute},
		"begun":                  {begun, time.Time{}, 3 * time.Hour},
		"begun, held for less":   {begun, now.Add(2 * time.Hour), 2 * time.Hour},
		"begun, held for longer": {begun, now.Add(4 * time.Hour), 3 * time.Hour},
	} {
		o := &openjob.Job{Job: tt.j, Typed: &schemas.Request{Value: &schemas.TextRequest{}}}
		if got := e.Deadline(o, tt.held).Sub(now); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestConcludeTellsAnEndAtATick: when a job ends that gave nothing tells as little as its
// output, so it is a whole number of ticks after the run began. A run that is to be
// repeated has not ended.
func TestConcludeTellsAnEndAtATick(t *testing.T) {
	again := errors.New("run 1: again")
	for _, tt := range []struct {
		err  error
		told []string
		wait time.Duration
	}{
		{nil, []string{tickSuccess}, 0},
		{again, nil, 0},
		{fail(job.CodeAgentFailed, "it broke"), []string{tickFailure}, tickEvery - time.Second},
		{fail(job.CodeDeadline, "too late"), []string{tickTimeout}, tickEvery - time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told []string
			a := &Attempt{began: time.Now(), ended: func(status string) { told = append(told, status) }}
			time.Sleep(time.Second)
			asked := time.Now()
			if err := a.Conclude(t.Context(), tt.err); !errors.Is(err, tt.err) {
				t.Errorf("%v became %v", tt.err, err)
			}
			if waited := time.Since(asked); waited != tt.wait || !slices.Equal(told, tt.told) {
				t.Errorf("%v: told %q after %v, want %q after %v", tt.err, told, waited, tt.told, tt.wait)
			}
		})
	}
}
