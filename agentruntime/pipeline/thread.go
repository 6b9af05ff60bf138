package pipeline

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ThreadID is a dotted path: "root.task-1.subtask-a". A segment is a name or
// name[key]; dots inside the brackets do not separate, so an agent id can be a
// key: "job[com.example.agent]". A path may have any number of segments.
type ThreadID string

var segmentForm = regexp.MustCompile(`^[a-zA-Z0-9_-]+(\[[a-zA-Z0-9_.:/@-]+\])?$`)

// ParseThreadID checks every segment.
func ParseThreadID(s string) (ThreadID, error) {
	if s == "" {
		return "", errors.New("is missing")
	}
	for _, segment := range splitThread(s) {
		if !segmentForm.MatchString(segment) {
			return "", fmt.Errorf("has a bad segment %.80q", segment)
		}
	}
	return ThreadID(s), nil
}

func splitThread(s string) []string {
	var segments []string
	start, inside := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '[':
			inside = true
		case s[i] == ']':
			inside = false
		case s[i] == '.' && !inside:
			segments = append(segments, s[start:i])
			start = i + 1
		}
	}

	return append(segments, s[start:])
}

func (t ThreadID) String() string { return string(t) }

// Parent returns the path without its last segment, "" for a root.
func (t ThreadID) Parent() ThreadID {
	segments := splitThread(string(t))
	return ThreadID(strings.Join(segments[:len(segments)-1], "."))
}

// Child appends a segment.
func (t ThreadID) Child(segment string) (ThreadID, error) {
	if !segmentForm.MatchString(segment) {
		return "", fmt.Errorf("thread segment %.80q has a bad form", segment)
	}
	return t + "." + ThreadID(segment), nil
}

// ThreadState is the state of a thread.
type ThreadState string

// The states of a thread; the last two are final.
const (
	ThreadActive    ThreadState = "Active"
	ThreadCompleted ThreadState = "Completed"
	ThreadFailed    ThreadState = "Failed"
)

// Thread is one conversation. Its table is fixed when it begins: neither a
// message nor a later table can change what it may reach.
type Thread struct {
	id     ThreadID
	table  *Table
	parent *Thread
	pipe   *Pipeline

	mu       sync.Mutex // guards what follows
	state    ThreadState
	busy     bool
	children []ThreadID
}

// ID returns the thread's path.
func (t *Thread) ID() ThreadID { return t.id }

// Profile returns the name of the profile the thread began with.
func (t *Thread) Profile() string { return t.table.profile }

// Table returns what the thread may reach.
func (t *Thread) Table() *Table { return t.table }

// Parent returns the thread that spawned this one, nil for a root.
func (t *Thread) Parent() *Thread { return t.parent }

// State returns where the thread is in its life.
func (t *Thread) State() ThreadState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Children returns the threads spawned from this one, in order.
func (t *Thread) Children() []ThreadID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.children)
}

// Restriction selects the routes that a child keeps of its parent's. It cannot add a
// route that the parent lacks. The zero value keeps all.
type Restriction struct{ keep *[]string }

// Keep restricts a child to those of these payload tags that the parent has. Without
// tags the child reaches nothing.
func Keep(tags ...string) Restriction {
	kept := slices.Clone(tags)
	return Restriction{keep: &kept}
}

// Spawn begins a child thread under the parent's profile, or less of it.
func (t *Thread) Spawn(segment string, r Restriction) (*Thread, error) {
	id, err := t.id.Child(segment)
	if err != nil {
		return nil, err
	}
	table := t.table
	if r.keep != nil {
		table = table.restrict(*r.keep)
	}
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.state != ThreadActive {
		return nil, fmt.Errorf("spawn %s: %w", id, ErrThreadClosed)
	}
	child, err := t.pipe.begin(id, table, t)
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", id, err)
	}
	t.children = append(t.children, id)
	return child, nil
}

// Submit puts a message from outside into the thread and returns the outcome. It ignores
// Ingress.Thread and Ingress.Profile and uses the thread's own. While another message is
// under way it returns [ErrThreadBusy].
func (t *Thread) Submit(ctx context.Context, in Ingress) (Outcome, error) {
	t.mu.Lock()

	switch {
	case t.state != ThreadActive:
		t.mu.Unlock()
		return Outcome{}, fmt.Errorf("thread %s: %w", t.id, ErrThreadClosed)
	case t.busy:
		t.mu.Unlock()
		return Outcome{}, fmt.Errorf("thread %s: %w", t.id, ErrThreadBusy)
	}

	t.busy = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.busy = false
		t.mu.Unlock()
	}()

	return t.pipe.run(ctx, t, in)
}

// Finish completes the thread, or fails it. A finished thread takes no message
// and spawns no child; its id may begin anew. Finishing twice changes nothing.
func (t *Thread) Finish(ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != ThreadActive {
		return
	}
	t.state = ThreadFailed
	if ok {
		t.state = ThreadCompleted
	}
	t.pipe.end(t)
}
