package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// child sells and buys from several goroutines until it is killed. It prints a
// line for each step that the store said is durable.
func child(dir string) int {
	ctx := context.Background()
	k, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	say := func(id, state string) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(id, state)
	}
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d/%d/%d", os.Getpid(), c, i)
				err := sell(ctx, k.Sales("p"), storetest.Job(name, receipts.ModeHold), say)
				if err == nil {
					err = journalOf(k, "root.of["+name+"]", say)
				}
				if err == nil {
					err = buy(ctx, k.Purchases(), storetest.Purchase(name), i%2 == 0, say)
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return 1
}

func sell(ctx context.Context, s *sales.Store, j job.Job, say func(id, state string)) error {
	if err := s.AddJob(ctx, j); err != nil {
		return err
	}
	say(j.RequestID, "quoted")
	for _, st := range storetest.Steps() {
		state := map[string]job.State{
			"pay": job.StatePaid, "start": job.StateRunning, "finish": job.StateDelivering, "settle": job.StateSucceeded,
		}[st.Name]
		if state == "" {
			continue
		}
		if err := st.Do(ctx, s, j); err != nil {
			return fmt.Errorf("%s: %w", st.Name, err)
		}
		say(j.RequestID, string(state))
	}
	return nil
}

func buy(ctx context.Context, s *purchases.Store, p buyer.Purchase, succeeds bool, say func(id, state string)) error {
	if err := s.AddPurchase(ctx, p); err != nil {
		return err
	}
	say(p.RequestID, "requested")
	if err := storetest.Reserve(ctx, s, p); err != nil {
		return err
	}
	say(p.RequestID, "paying")
	if !succeeds {
		defer say(p.RequestID, "failed")
		return s.Unpaid(ctx, p.RequestID, storetest.FailedFor(p), buyer.StateFailed, "no route")
	}
	defer say(p.RequestID, "paid")
	return s.Paid(ctx, p.RequestID, storetest.PaidFor(p))
}

func journalOf(k *store.Store, thread string, say func(id, state string)) error {
	if err := storetest.AppendOne(k, thread, "h")(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	say(thread, "journaled")
	return nil
}

// rank orders the states of a job and of a purchase along their paths.
var rank = map[string]int{
	"quoted": 1, "paid": 2, "running": 3, "delivering": 4, "succeeded": 5, // a job; "paid" also ends a purchase here
	"requested": 1, "paying": 1, "failed": 2,
	"journaled": 1,
}

func TestKillAnywhere(t *testing.T) {
	requirements.Covers(t, "AP-14.1.1", "AP-14.1.2", "AP-14.2.2")
	k := storetest.Open(t)
	acked := map[string]string{} // the last acknowledged state of each id
	for round := range 4 {
		storetest.Must(t, k.Close())
		killChild(t, k.Dir, 150+90*round, acked)
		k.Store = nil
		k.Reopen(t)
		for id, want := range acked {
			got := stateOf(t, k, id)
			if rank[got] < rank[want] {
				t.Fatalf("round %d: %s was acknowledged as %s and is %q", round, id, want, got)
			}
		}
		storetest.CheckProvider(t, k)
		checkLedger(t, k)
	}
	if len(acked) < 50 {
		t.Fatalf("only %d ids were acknowledged", len(acked))
	}
}

// killChild runs a child, reads its first lines, kills it, and takes the rest.
func killChild(t *testing.T, dir string, lines int, acked map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CHILD="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	storetest.Must(t, err)
	storetest.Must(t, cmd.Start())
	r := bufio.NewReader(pipe)
	take := func(line string) {
		if id, state, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			acked[id] = state
		}
	}
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("child ended early: %v", err)
		}
		take(line)
	}
	storetest.Must(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(r)
	for line := range strings.Lines(string(rest)) {
		if strings.HasSuffix(line, "\n") { // a cut line was not acknowledged
			take(line)
		}
	}
	_ = cmd.Wait() // it was killed
}

func stateOf(t *testing.T, k *storetest.DB, id string) (state string) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT state FROM job_current WHERE request_id = ?1
			UNION ALL SELECT state FROM purchase_current WHERE request_id = ?1
			UNION ALL SELECT 'journaled' FROM journal_by_thread WHERE thread_id = ?1`, id).Scan(&state)
	})
	return state
}

// checkLedger holds the ledger against the purchases it is for.
func checkLedger(t *testing.T, k *storetest.DB) {
	t.Helper()
	for what, query := range map[string]string{
		"reservations without a payment on the way": `SELECT count(*) FROM (SELECT request_id, sum(reserved_msats) AS held FROM ledger GROUP BY request_id)
			JOIN purchase_current USING (request_id) WHERE (held > 0) <> (state = 'paying')`,
		"payments that were not debited once": `SELECT count(*) FROM purchase_payments p WHERE state = 'succeeded'
			AND amount_msats + fee_msats <> (SELECT sum(spent_msats) FROM ledger l WHERE l.request_id = p.request_id AND l.purpose = p.purpose)`,
		"attempts without a reservation": "SELECT count(*) FROM attempts WHERE request_id NOT IN (SELECT request_id FROM ledger)",
	} {
		if n := k.Count(t, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	storetest.CheckTotals(t, k)
}
