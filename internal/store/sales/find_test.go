package sales_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestFindJob: by the beginning of an id or of a receipt's, and only if that is
// one's alone.
func TestFindJob(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	var jobs []job.Job
	for i := range 3 {
		j := storetest.Job(fmt.Sprint(i), "hold")
		j.RequestID = "abcdef" + j.RequestID[6:]
		storetest.ToState(t, s, j, job.StateSucceeded)
		jobs = append(jobs, j)
	}
	id := jobs[1].RequestID
	for prefix, want := range map[string]error{
		id: nil, id[:12]: nil, "rcpt_" + id: nil, "rcpt_" + id[:12]: nil, "abcdef": names.ErrAmbiguous, "rcpt_abcdef": names.ErrAmbiguous,
		"abcde": job.ErrNotFound, "": job.ErrNotFound, "rcpt_": job.ErrNotFound, "rcpt_123456": job.ErrNotFound,
		"ABCDEF": job.ErrNotFound, "abcdef%": job.ErrNotFound, id + "0": job.ErrNotFound,
	} {
		j, err := s.FindJob(t.Context(), prefix)
		if !errors.Is(err, want) || err == nil && j.RequestID != id {
			t.Errorf("FindJob(%q) = %s, %v, want %v", prefix, j.RequestID, err, want)
		}
	}
}
