package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestThreadLife(t *testing.T) {
	requirements.Covers(t, "AP-5.2.1", "AP-5.3.1")
	w := newWorld(t, Config{Handlers: []Handler{echo("echo", "Ping", "Pong")}})
	root, err := w.Open("root", "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open("root", "main"); !errors.Is(err, ErrThreadBusy) {
		t.Errorf("a second root: %v", err)
	}
	child, err := root.Spawn("task-1", Keep("Ping"))
	if err != nil {
		t.Fatal(err)
	}
	if child.ID() != "root.task-1" || child.Parent() != root || child.Profile() != "main" || child.State() != ThreadActive ||
		root.Parent() != nil || !slices.Equal(root.Children(), []ThreadID{"root.task-1"}) {
		t.Errorf("child %s of %v, children %v", child.ID(), child.Parent(), root.Children())
	}
	if _, err := root.Spawn("task-1", Restriction{}); !errors.Is(err, ErrThreadBusy) {
		t.Errorf("the same child twice: %v", err)
	}
	if _, err := root.Spawn("a.b", Restriction{}); err == nil {
		t.Error("a child with a dotted name")
	}
	if _, err := child.Submit(t.Context(), ingress("Pong", "")); !isNoRoute(err) {
		t.Errorf("a route that was taken away: %v", err)
	}
	out, err := child.Submit(t.Context(), ingress("Ping", ""))
	if err != nil || out.Reply.Thread() != "root.task-1" {
		t.Errorf("%v, %v", out.Reply.Header(), err)
	}
	child.Finish(false)
	child.Finish(true)
	root.Finish(true)
	if child.State() != ThreadFailed || root.State() != ThreadCompleted {
		t.Errorf("states %s, %s", child.State(), root.State())
	}
	if _, err := child.Submit(t.Context(), ingress("Ping", "")); !errors.Is(err, ErrThreadClosed) {
		t.Errorf("a closed thread took a message: %v", err)
	}
	if _, err := root.Spawn("late", Restriction{}); !errors.Is(err, ErrThreadClosed) {
		t.Errorf("a closed thread spawned: %v", err)
	}
	if len(w.threads) != 0 {
		t.Errorf("left %v", w.threads)
	}
}

// What a message says about profile and thread is ignored: the thread has its
// own since it began.
func TestProfileCannotChangeMidConversation(t *testing.T) {
	requirements.Covers(t, "AP-8.5.1", "AP-B.4")
	w := newWorld(t, Config{
		Handlers: []Handler{echo("reader", "Read"), echo("writer", "Write")},
		Profiles: []Profile{{Name: "researcher", Handlers: []string{"reader"}}, {Name: "main", Handlers: []string{"reader", "writer"}}},
	})
	th, err := w.Open("root", "researcher")
	if err != nil {
		t.Fatal(err)
	}
	in := ingress("Write", "")
	in.Profile, in.Thread = "main", "other"
	if _, err := th.Submit(t.Context(), in); !isNoRoute(err) {
		t.Errorf("got %v", err)
	}
	if r := w.log.rejects[0]; r.Profile != "researcher" || r.Thread != "root" {
		t.Errorf("audit %+v", r)
	}
}

func TestThreadTakesOneMessageAtATime(t *testing.T) {
	var th *Thread
	var inner error
	h := Handler{Name: "h", Description: "looks", Tags: []string{"Do"}, Handle: func(ctx context.Context, _ Payload, _ Context) (Response, error) {
		_, inner = th.Submit(ctx, ingress("Do", "")) // only a test can do that
		return Silence(), nil
	}}
	w := newWorld(t, Config{Handlers: []Handler{h}})
	th, err := w.Open("root", "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := th.Submit(t.Context(), ingress("Do", "")); err != nil || !errors.Is(inner, ErrThreadBusy) {
		t.Errorf("outer %v, inner %v", err, inner)
	}
	if _, err := th.Submit(t.Context(), ingress("Do", "")); err != nil {
		t.Errorf("the thread stayed busy: %v", err)
	}
}

// Nothing in the scheme limits depth: 1,000 levels, each with its own thread.
func TestDeepThreads(t *testing.T) {
	requirements.Covers(t, "AP-5.4.1")
	w := newWorld(t, Config{Handlers: []Handler{echo("echo", "Ping")}})
	th, err := w.Open("root", "main")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if th, err = th.Spawn("t"+strconv.Itoa(i), Restriction{}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := th.Submit(t.Context(), ingress("Ping", "deep")); err != nil || string(out.Reply.Payload()) != "deep" {
		t.Errorf("%q, %v", out.Reply.Payload(), err)
	}
}

// Recursion, branching and a store in one flow: a factorial over messages that
// a handler sends itself.
func TestFactorialOverMessages(t *testing.T) {
	requirements.Covers(t, "AP-5.4.2")
	stored := map[int]int{}
	h := Handler{
		Name: "factorial", Description: "multiplies", Tags: []string{"Compute", "Product"}, Outputs: []string{"Compute", "Product"}, Peers: []string{"factorial"},
		Handle: func(_ context.Context, p Payload, _ Context) (Response, error) {
			n, acc := 0, 1
			if _, err := fmt.Sscanf(string(p.Bytes), "%d %d", &n, &acc); err != nil && p.Tag == "Compute" {
				return Response{}, err
			}
			if p.Tag == "Product" || n <= 1 {
				if p.Tag == "Compute" {
					return Reply("Product", []byte(strconv.Itoa(acc))), nil
				}
				return Reply("Product", p.Bytes), nil
			}
			stored[n] = acc * n
			return Send("factorial", "Compute", fmt.Appendf(nil, "%d %d", n-1, stored[n])), nil
		},
	}
	w := newWorld(t, Config{Handlers: []Handler{h}})
	out, err := w.Submit(t.Context(), ingress("Compute", "10 1"))
	if err != nil || string(out.Reply.Payload()) != "3628800" || len(stored) != 9 {
		t.Errorf("%q, %v, %v", out.Reply.Payload(), err, stored)
	}
}
