package curator_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("CURATOR_TEST_CHILD"); dir != "" {
		fmt.Fprintln(os.Stderr, "not killed:", curateAndDie(dir, os.Getenv("CURATOR_TEST_KILL")))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// deadly is a store, and a summarizer, that kill the process before or after one
// of their calls.
type deadly struct {
	curator.Store
	left int
}

func (d *deadly) boundary() {
	if d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	d.left--
}

func (d *deadly) Apply(ctx context.Context, thread threadID, changes []curator.Change) error {
	d.boundary()
	err := d.Store.Apply(ctx, thread, changes)
	d.boundary()
	return err
}

func (d *deadly) Return(ctx context.Context, r curator.Returned) error {
	d.boundary()
	err := d.Store.Return(ctx, r)
	d.boundary()
	return err
}

func (d *deadly) summarize(_ context.Context, s curator.Segment, _ []byte) (string, error) {
	d.boundary()
	return "Summary of " + s.ID.String(), nil
}

// tasks are the story: each turn folds, evicts or unfolds something.
var tasks = []string{"parser tests bracket", "invoice hosting paid", "sunshine coast winds", "parser tests bracket"}

func tell(ctx context.Context, k *store.Store, d *deadly) error {
	d.Store = k.ContextStore()
	c, err := curator.New(curator.Config{Store: d, Summarize: d.summarize, Budget: 190})
	if err != nil {
		return err
	}
	for _, task := range tasks {
		if _, _, err := c.Turn(ctx, "root", task); err != nil {
			return err
		}
	}
	return c.Return(ctx, curator.Returned{Thread: "root", Retention: threeDays})
}

func curateAndDie(dir, boundary string) error {
	left, err := strconv.Atoi(boundary)
	if err != nil {
		return err
	}
	k, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return err
	}
	return tell(context.Background(), k, &deadly{left: left})
}

// TestKilledCuratorGoesOn kills a process at each boundary of a curator's work:
// in the model call, before and after each write. Every original is there byte
// for byte, and a new curator comes to the same view.
func TestKilledCuratorGoesOn(t *testing.T) {
	requirements.Covers(t, "AP-6.5.1", "AP-B.5", "AP-14.0.1")
	count := &deadly{left: 1 << 20}
	calm := newWorld(t, curator.Config{})
	calm.put(t, billing, parsing, weather)
	must(t, tell(t.Context(), calm.k, count))
	const final = "sunshine on the coast"
	calm.restart(t)
	want, _ := calm.turn(t, final)

	boundaries := 1<<20 - count.left
	if boundaries < 2*len(tasks) {
		t.Fatalf("only %d boundaries", boundaries)
	}
	for n := range boundaries {
		w := newWorld(t, curator.Config{Budget: 1 << 10})
		ids := w.put(t, billing, parsing, weather)
		must(t, w.k.Close())
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "CURATOR_TEST_CHILD="+w.dir, "CURATOR_TEST_KILL="+strconv.Itoa(n))
		cmd.Stderr = os.Stderr
		_ = cmd.Run()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			t.Fatalf("boundary %d: child ended with %v", n, cmd.ProcessState)
		}
		w.k = nil
		w.restart(t)
		for i, text := range []string{billing, parsing, weather} {
			if got := w.original(t, ids[i]); got != text {
				t.Fatalf("boundary %d: %q came back as %q", n, text, got)
			}
		}
		view, _ := w.turn(t, final)
		if diff := cmp.Diff(tiers(want), tiers(view)); diff != "" {
			t.Fatalf("boundary %d:\n%s", n, diff)
		}
	}
}

// tiers is a view without the summaries, which depend on who made them.
func tiers(v curator.View) string {
	var b strings.Builder
	for _, s := range v.Items {
		fmt.Fprint(&b, s.ID, " ", s.Status, "\n")
	}
	return b.String()
}
