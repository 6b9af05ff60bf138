package contexts_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_STORY"); dir != "" {
		os.Exit(tellAndDie(dir, os.Getenv("STORE_TEST_KILL")))
	}
	if dir := os.Getenv("STORE_TEST_CURATE"); dir != "" {
		os.Exit(curateAndDie(dir))
	}
	goleak.VerifyTestMain(m)
}

// story is what happens to a thread and its context, transaction by transaction,
// write by write.
func story() [][]func(tx *store.Tx) error {
	put := func(thread, text string) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			_, err := tx.PutSegment(thread, "text/plain", []byte(text))
			return err
		}
	}
	say := func(thread, payload string, r journal.Retention) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			_, err := tx.AppendJournalPayload(storetest.Entry(thread, r), []byte(payload))
			return err
		}
	}
	thread := func(id string) func(tx *store.Tx) error {
		return func(tx *store.Tx) error { return tx.CreateThread(id, "p") }
	}
	move := func(id curator.ID, from, to curator.Status, summary string) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			return tx.ChangeSegments("root.job", []curator.Change{{ID: id, From: from, To: to, Relevance: 0.5, Summary: summary}})
		}
	}
	return [][]func(tx *store.Tx) error{
		{thread("root"), put("root", "first"), say("root", "first", journal.RetainForever)},
		{thread("root.job"), put("root.job", "second"), put("root.job", "third"), say("root.job", "second", journal.RetainDays(1))},
		{move(2, curator.Expanded, curator.Folded, "summary two"), move(3, curator.Expanded, curator.Evicted, "")},
		{move(2, curator.Folded, curator.Expanded, ""), move(3, curator.Evicted, curator.Folded, "summary three")},
		{move(2, curator.Expanded, curator.Evicted, ""), move(3, curator.Folded, curator.Expanded, "")},
		{say("root.job", "fourth", journal.RetainDays(1)), func(tx *store.Tx) error {
			return tx.ReturnThread(curator.Returned{
				Thread: "root.job", Result: []byte("result"), ContentType: "text/plain",
				Retention: pipeline.Retention{Policy: pipeline.RetainDays, Days: 1},
				Folds:     []curator.Change{{ID: 3, From: curator.Expanded, To: curator.Folded}},
			})
		}},
		{put("root", "fifth"), say("root", "result", journal.RetainForever)},
		{func(tx *store.Tx) error {
			_, err := storetest.PruneJournal(tx, storetest.Start.AddDate(0, 0, 2), 100)
			return err
		}, func(tx *store.Tx) error {
			_, _, err := tx.PruneExpired(storetest.Start.AddDate(0, 0, 2), 100)
			return err
		}},
	}
}

// boundaries of the story: before each write, after the last one of each
// transaction, and after each commit.
func boundaries() (n int) {
	for _, writes := range story() {
		n += len(writes) + 2
	}
	return n
}

// tell plays the story from its nth transaction on and calls at for each
// boundary.
func tell(ctx context.Context, k *store.Store, from int, at func()) error {
	for _, writes := range story()[from:] {
		err := k.Update(ctx, func(tx *store.Tx) error {
			for _, write := range writes {
				at()
				if err := write(tx); err != nil {
					return err
				}
			}
			at()
			return nil
		})
		if err != nil {
			return err
		}
		at()
	}
	return nil
}

// tellAndDie is a child that kills itself at one boundary.
func tellAndDie(dir, boundary string) int {
	left, err := strconv.Atoi(boundary)
	if err == nil {
		var k *store.Store
		if k, err = store.Open(context.Background(), dir, store.Options{Now: func() time.Time { return storetest.Start }}); err == nil {
			err = tell(context.Background(), k, 0, func() {
				if left == 0 {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
				left--
			})
		}
	}
	fmt.Fprintln(os.Stderr, "not killed:", err)
	return 1
}

// TestContextSurvivesAKillAtEachWrite has every child killed at another boundary.
// What is left is, row for row, the state after the last commit; and what comes
// after is what would have come without the crash, with the same ids.
func TestContextSurvivesAKillAtEachWrite(t *testing.T) {
	requirements.Covers(t, "AP-14.2.1", "AP-14.1.2", "AP-14.2.2", "AP-6.5.1", "AP-B.5", "APX-10")
	calm := storetest.Open(t)
	states := []map[string][]string{calm.Dump(t)}
	for i := range story() {
		calm.Change(t, func(tx *store.Tx) error {
			for _, write := range story()[i] {
				if err := write(tx); err != nil {
					return err
				}
			}
			return nil
		})
		states = append(states, calm.Dump(t))
	}
	commits, boundary := 0, 0
	for _, writes := range story() {
		for i := range len(writes) + 2 {
			done := commits
			if i == len(writes)+1 {
				done++ // after the commit
			}
			surviveKill(t, boundary, done, states)
			boundary++
		}
		commits++
	}
	if boundary != boundaries() {
		t.Errorf("%d boundaries of %d", boundary, boundaries())
	}
}

func surviveKill(t *testing.T, boundary, done int, states []map[string][]string) {
	t.Helper()
	k := storetest.Open(t)
	storetest.Must(t, k.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_STORY="+k.Dir, "STORE_TEST_KILL="+strconv.Itoa(boundary))
	cmd.Stderr = os.Stderr
	_ = cmd.Run()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("boundary %d: child ended with %v", boundary, cmd.ProcessState)
	}
	k.Store = nil
	k.Reopen(t)
	if diff := cmp.Diff(states[done], k.Dump(t)); diff != "" {
		t.Fatalf("killed at boundary %d, after %d commits:\n%s", boundary, done, diff)
	}
	storetest.Must(t, tell(t.Context(), k.Store, done, func() {}))
	if diff := cmp.Diff(states[len(states)-1], k.Dump(t)); diff != "" {
		t.Fatalf("went on after boundary %d:\n%s", boundary, diff)
	}
}

// curateAndDie is a child that works on threads until it is killed, from several
// goroutines. It prints each step that the store said is durable.
func curateAndDie(dir string) int {
	ctx := context.Background()
	k, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				thread := fmt.Sprintf("t%d-%d-%d", os.Getpid(), c, i)
				err := curateOnce(ctx, k, thread, func(status curator.Status) {
					out.Lock()
					defer out.Unlock()
					fmt.Println(thread, status)
				})
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

// curateOnce makes a thread, a segment and an entry at once, then folds, evicts
// and unfolds.
func curateOnce(ctx context.Context, k *store.Store, thread string, say func(curator.Status)) error {
	var id curator.ID
	err := k.Update(ctx, func(tx *store.Tx) (err error) {
		if err := tx.CreateThread(thread, "p"); err != nil {
			return err
		}
		if id, err = tx.PutSegment(thread, "text/plain", []byte("known to "+thread)); err != nil {
			return err
		}
		_, err = tx.AppendJournalPayload(storetest.Entry(thread, journal.RetainForever), []byte("known to "+thread))
		return err
	})
	if err != nil {
		return err
	}
	say(curator.Expanded)
	at := curator.Expanded
	for _, to := range []curator.Status{curator.Folded, curator.Evicted} {
		c := curator.Change{ID: id, From: at, To: to}
		if to == curator.Folded {
			c.Summary = "summary of " + id.String()
		}
		if err := k.ContextStore().Apply(ctx, pipeline.ThreadID(thread), []curator.Change{c}); err != nil {
			return err
		}
		say(to)
		at = to
	}
	return nil
}

// TestContextSurvivesAKillAtAnyTime kills from outside, wherever the child is:
// also inside a commit.
func TestContextSurvivesAKillAtAnyTime(t *testing.T) {
	requirements.Covers(t, "AP-14.2.1", "AP-14.1.1", "AP-6.5.1")
	k := storetest.Open(t)
	order := map[string]int{"Expanded": 1, "Folded": 2, "Evicted": 3}
	acked := map[string]string{}
	for round := range 3 {
		storetest.Must(t, k.Close())
		runAndKill(t, k.Dir, 60+50*round, acked)
		k.Store = nil
		k.Reopen(t)
		for thread, want := range acked {
			got := storetest.Segments(t, k, thread)
			if len(got) != 1 || order[string(got[0].Status)] < order[want] {
				t.Fatalf("round %d: %s was acknowledged as %s and has %+v", round, thread, want, got)
			}
		}
		all := k.Count(t, "SELECT count(*) FROM threads")
		for _, table := range []string{"context_segments", "journal"} {
			if n := k.Count(t, "SELECT count(DISTINCT thread_id) FROM "+table); n != all {
				t.Fatalf("round %d: %s knows %d of %d threads", round, table, n, all)
			}
		}
		k.Read(t, func(tx *store.Tx) error {
			threads, err := tx.Strings("SELECT thread_id FROM threads")
			for _, thread := range threads {
				s, err := tx.Segments(thread, 0)
				if err != nil || len(s) != 1 {
					return fmt.Errorf("%s: %d segments, %w", thread, len(s), err)
				}
				if data, err := tx.SegmentContent(thread, s[0].ID); err != nil || string(data) != "known to "+thread {
					return fmt.Errorf("%s: %q, %w", thread, data, err)
				}
			}
			return err
		})
	}
}

func runAndKill(t *testing.T, dir string, lines int, acked map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CURATE="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	storetest.Must(t, err)
	storetest.Must(t, cmd.Start())
	r := bufio.NewReader(pipe)
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			break // it is dead; a cut line was not acknowledged
		}
		if thread, status, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			acked[thread] = status
		}
		if n == lines {
			storetest.Must(t, cmd.Process.Kill())
		}
	}
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait() // it was killed
	if len(acked) < lines/4 {
		t.Fatalf("only %d threads were acknowledged", len(acked))
	}
}
