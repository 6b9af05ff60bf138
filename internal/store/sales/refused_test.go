package sales_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestRefusalsAreForgotten: strangers make the database grow for a day, and no
// longer; a request that can still be replayed is remembered, and a job always.
func TestRefusalsAreForgotten(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("sold", "hold")
	storetest.Must(t, s.AddJob(t.Context(), j))
	refuse := func(name string) error {
		return s.Refuse(t.Context(), storetest.HexID("refused %s", name), storetest.HexID("stranger"), job.Reason{Code: job.CodeInvalidInput, Detail: "x"})
	}
	for i := range 10 {
		storetest.Must(t, refuse(fmt.Sprint("old ", i)))
	}
	k.Now = storetest.Start.Add(job.RefusedFor - time.Minute)
	storetest.Must(t, refuse("young"))
	if err := refuse("old 0"); !errors.Is(err, job.ErrDuplicate) {
		t.Errorf("a refusal is forgotten too soon: %v", err)
	}
	k.Now = storetest.Start.Add(job.RefusedFor + time.Minute)
	for i := range 3 {
		storetest.Must(t, refuse(fmt.Sprint("new ", i)))
	}
	if n := k.Count(t, "SELECT count(*) FROM job_states WHERE state = 'refused'"); n != 4 {
		t.Errorf("%d refusals are kept, want the young one and the new ones", n)
	}
	if n := k.Count(t, "SELECT count(*) FROM requests"); n != 5 {
		t.Errorf("%d requests are kept", n)
	}
	if err := refuse("young"); !errors.Is(err, job.ErrDuplicate) {
		t.Errorf("the young refusal is gone: %v", err)
	}
	if got, err := s.Job(t.Context(), j.RequestID); err != nil || got.State != job.StateQuoted {
		t.Errorf("the job is %s, %v", got.State, err)
	}
	for _, query := range []string{"DELETE FROM requests", "DELETE FROM job_history", "DELETE FROM job_history WHERE state = 'quoted'"} {
		if err := k.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(query); return err }); err == nil {
			t.Errorf("%s passes", query)
		}
	}
}

// TestRefusalsAreBounded: of more requests than are remembered the oldest refusals
// go within the day, and what a stranger had repeated in one is cut.
func TestRefusalsAreBounded(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	refuse := func(name, detail string) {
		t.Helper()
		storetest.Must(t, s.Refuse(t.Context(), storetest.HexID("refused %s", name), storetest.HexID("stranger"), job.Reason{Code: job.CodeInvalidInput, Detail: detail}))
	}
	j := storetest.Job("sold", "hold")
	storetest.Must(t, s.AddJob(t.Context(), j))
	for i := range 10 {
		refuse(fmt.Sprint("old ", i), "x")
	}
	storetest.Must(t, k.Update(t.Context(), func(tx *store.Tx) error { // as many requests as are remembered, without their rows
		_, err := tx.Exec("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'requests'", job.RefusedMost)
		return err
	}))
	for i := range 4 {
		refuse(fmt.Sprint("new ", i), strings.Repeat("ü", 5000))
	}
	if n := k.Count(t, "SELECT count(*) FROM job_states WHERE state = 'refused'"); n != 4 {
		t.Errorf("%d refusals are kept, want the new ones", n)
	}
	if n := k.Count(t, "SELECT max(length(CAST(detail AS BLOB))) FROM job_states"); n > 1000 {
		t.Errorf("a refusal has %d bytes", n)
	}
	if got, err := s.Job(t.Context(), j.RequestID); err != nil || got.State != job.StateQuoted {
		t.Errorf("the job is %s, %v", got.State, err)
	}
}
