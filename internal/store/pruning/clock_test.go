package pruning_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestAWrongClockPrunesNothing: a clock that has jumped is refused, by what would be
// pruned too, and changes nothing, until it is right again or the operator says that it
// is.
func TestAWrongClockPrunesNothing(t *testing.T) {
	k := storetest.Open(t)
	j := sell(t, k, "a", promised(), []byte("log"))
	at := func(after time.Duration) error {
		t.Helper()
		k.Now = storetest.Start.Add(after)
		k.Reopen(t)
		_, planned := k.Pruning().Plan(t.Context(), promised(), false)
		before := k.Dump(t)
		err := commits(t.Context(), k.Pruning(), promised(), func() {})
		var wrong *pruning.ClockError
		if errors.As(err, &wrong) != errors.As(planned, &wrong) {
			t.Errorf("after %s: %v, and the plan says %v", after, err, planned)
		}
		if wrong != nil && len(k.Dump(t)["job_pruned"]) != len(before["job_pruned"]) {
			t.Errorf("after %s: something was pruned", after)
		}
		return err
	}

	for _, c := range []struct {
		after   time.Duration
		refused bool
	}{
		{365 * day, true}, // against the newest request, before the first pruning
		{-day, true},
		{time.Hour, false},
		{365 * day, true},
		{73*time.Hour + time.Minute, true},
		{73 * time.Hour, false},
		{73*time.Hour - time.Minute, false}, // the time service corrects it
		{72 * time.Hour, true},              // the time service does not
		{0, true},
		{6 * day, false},
		{365 * day, true},
	} {
		err := at(c.after)
		if wrong := (*pruning.ClockError)(nil); errors.As(err, &wrong) != c.refused || !c.refused && err != nil {
			t.Errorf("after %s: %v", c.after, err)
		}
		if got := left(t, k, j); !slices.Equal(got, receipts.Parts()) {
			t.Fatalf("after %s only %v is left", c.after, got)
		}
	}

	storetest.Must(t, k.Pruning().TrustClock(t.Context()))
	storetest.Must(t, at(365*day))
	if got := left(t, k, j); got != nil {
		t.Errorf("%v is left", got)
	}

	// It was wrong after all, and is set back.
	if err := at(8 * day); !errors.As(err, new(*pruning.ClockError)) {
		t.Errorf("set back: %v", err)
	}
	storetest.Must(t, k.Pruning().TrustClock(t.Context()))
	storetest.Must(t, at(8*day))
}

// TestJobsThatEndWhileTheClockIsBehind: their promises count from when the database last
// knew a clock, so nothing goes as soon as it is right again.
func TestJobsThatEndWhileTheClockIsBehind(t *testing.T) {
	k := storetest.Open(t)
	prune(t, k, promised())
	k.Now = storetest.Start.AddDate(-1, 0, 0)
	k.Reopen(t)
	j := sell(t, k, "a", promised(), []byte("log"))

	for after, want := range map[time.Duration]int{
		time.Minute: len(receipts.Parts()), 7*day - time.Minute: len(receipts.Parts()), 7 * day: len(receipts.Parts()) - 2,
	} {
		k.Now = storetest.Start.Add(after)
		k.Reopen(t)
		plan, err := k.Pruning().Plan(t.Context(), promised(), true)
		storetest.Must(t, err)
		over := 0
		for _, p := range plan {
			over += p.Jobs
		}
		if over != len(receipts.Parts())-want {
			t.Errorf("after %s: of job %s %d parts are over", after, j.RequestID, over)
		}
	}
	if found, err := k.Sales("p").Job(t.Context(), j.RequestID); err != nil || found.State != job.StateSucceeded {
		t.Errorf("%s, %v", found.State, err)
	}
}
