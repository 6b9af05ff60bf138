package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// ThreadState is where a thread stands (AP-5.3.1).
type ThreadState string

// The states of a thread. Active comes first; the others are final.
const (
	ThreadActive    ThreadState = "Active"
	ThreadCompleted ThreadState = "Completed"
	ThreadFailed    ThreadState = "Failed"
)

// Thread is one path of work.
type Thread struct {
	ID       string // dot-separated path, for example "root.task-1.job[abc]" (AP-5.1.1)
	Parent   string // "" for a root
	Profile  string
	State    ThreadState
	Result   *hashing.Digest // content that the thread returned, if any
	Created  time.Time
	StateAt  time.Time
	Children []string
}

// Bounds of a thread id. The depth has no bound of its own (AP-5.4.1).
const (
	MaxThreadID    = 64 << 10
	MaxThreadLabel = 256
)

// ThreadPath checks an id and returns the ids from its root down to itself. A
// label is a name or name[key] in printable ASCII; dots in a key do not
// separate.
func ThreadPath(id string) ([]string, error) {
	if len(id) > MaxThreadID {
		return nil, fmt.Errorf("thread id of %d bytes: %w", len(id), row.ErrTooLarge)
	}

	var path []string
	for from := 0; ; {
		n := labelLen(id[from:])
		if n == 0 || n > MaxThreadLabel {
			return nil, fmt.Errorf("thread id %.80q: %w", id, row.ErrInvalid)
		}
		from += n
		path = append(path, id[:from])
		if from == len(id) {
			return path, nil
		}
		if id[from] != '.' {
			return nil, fmt.Errorf("thread id %.80q: %w", id, row.ErrInvalid)
		}

		from++
	}
}

// labelLen is the length of the label that s begins with, 0 if there is none.
func labelLen(s string) int {
	name := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(".[]", r) })
	if name < 0 {
		return len(s)
	}
	if name == 0 || s[name] != '[' {
		return name
	}

	key := strings.IndexFunc(s[name+1:], func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("[]", r) })
	if key < 1 || s[name+1+key] != ']' {
		return 0
	}
	return name + key + 2
}

// CreateThread records a new Active thread. Its parent is the path without
// the last label; that must exist and be Active (ErrNotFound, ErrConflict). Whether
// the profile is narrow enough is the caller's to check. ErrDuplicate if the
// thread exists.
func (tx Journal) CreateThread(id, profile string) error {
	path, err := ThreadPath(id)
	if err != nil {
		return err
	}
	parent := ""
	if len(path) > 1 {
		parent = path[len(path)-2]
		state, err := tx.StateOf(parent)
		if err != nil {
			return fmt.Errorf("create thread: parent %w", err)
		}
		if state != ThreadActive {
			return fmt.Errorf("create thread: parent is %s: %w", state, row.ErrConflict)
		}
	}

	_, err = tx.Exec("INSERT INTO threads(thread_id, parent, profile, created_ms) VALUES (?, ?, ?, ?)",
		id, row.Text(parent), profile, tx.Now().UnixMilli())
	if sqlite.IsUnique(err) {
		return fmt.Errorf("thread %q: %w", id, row.ErrDuplicate)
	}
	if err != nil {
		return fmt.Errorf("create thread: %w", err)
	}

	return nil
}

// EnsureThread creates the thread and those above it that are missing, all with
// profile. A thread that exists is left as it is.
func (tx Journal) EnsureThread(id, profile string) error {
	// One that exists has all those above it: the cost must not grow with depth.
	if _, err := tx.StateOf(id); !errors.Is(err, row.ErrNotFound) {
		return err
	}
	path, err := ThreadPath(id)
	if err != nil {
		return err
	}

	// Up to what exists, and down again.
	from := len(path) - 1
	for ; from > 0; from-- {
		if _, err := tx.StateOf(path[from-1]); !errors.Is(err, row.ErrNotFound) {
			if err != nil {
				return err
			}
			break
		}
	}

	for _, id := range path[from:] {
		if err := tx.CreateThread(id, profile); err != nil {
			return err
		}
	}

	return nil
}

// OpenThread creates a thread and those above it that are missing, all with
// profile. ErrDuplicate if the thread exists.
func (tx Journal) OpenThread(id, profile string) error {
	path, err := ThreadPath(id)
	if err != nil {
		return err
	}

	if len(path) > 1 {
		if err := tx.EnsureThread(path[len(path)-2], profile); err != nil {
			return err
		}
	}
	return tx.CreateThread(id, profile)
}

// EndThread moves an Active thread to Completed or Failed. result is the digest
// of the content it returns to its parent, or nil. ErrConflict if it has ended.
func (tx Journal) EndThread(id string, to ThreadState, result *hashing.Digest) error {
	if to != ThreadCompleted && to != ThreadFailed {
		return fmt.Errorf("end thread as %q: %w", to, row.ErrInvalid)
	}
	state, err := tx.StateOf(id)
	if err != nil {
		return fmt.Errorf("end thread: %w", err)
	}
	if state != ThreadActive {
		return fmt.Errorf("end thread %q, which is %s: %w", id, state, row.ErrConflict)
	}

	_, err = tx.Exec("INSERT INTO thread_states(thread_id, state, result, at_ms) VALUES (?, ?, ?, ?)",
		id, string(to), row.BlobPtr(result), tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record thread state: %w", err)
	}
	return nil
}

// StateOf is where a thread stands.
func (tx Journal) StateOf(id string) (ThreadState, error) {
	var s string
	err := tx.QueryRow("SELECT state FROM thread_current WHERE thread_id = ?", id).Scan(&s)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("thread %q: %w", id, row.ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("read thread: %w", err)
	}
	return ThreadState(s), nil
}

// Thread returns a thread as it stands, with the ids of its children.
func (tx Journal) Thread(id string) (Thread, error) {
	t := Thread{ID: id}
	var (
		parent      sql.NullString
		state       string
		result      hashing.Digest
		created, at int64
	)
	err := tx.QueryRow("SELECT parent, profile, created_ms, state, result, at_ms FROM thread_current WHERE thread_id = ?", id).
		Scan(&parent, &t.Profile, &created, &state, row.Into(&result), &at)
	if errors.Is(err, sql.ErrNoRows) {
		return t, fmt.Errorf("thread %q: %w", id, row.ErrNotFound)
	}
	if err != nil {
		return t, fmt.Errorf("read thread: %w", err)
	}

	t.Parent, t.State, t.Created, t.StateAt = parent.String, ThreadState(state), row.FromMs(created), row.FromMs(at)
	if !result.IsZero() {
		t.Result = &result
	}
	t.Children, err = tx.Strings("SELECT thread_id FROM threads WHERE parent = ? ORDER BY rowid", id)
	return t, err
}

// UnfinishedThreads lists the Active threads that were not made for a job, which
// ends its own. Those below come before those above.
func (tx Journal) UnfinishedThreads() ([]string, error) {
	ids, err := tx.Strings(`SELECT t.thread_id FROM threads t
		WHERE NOT EXISTS (SELECT 1 FROM thread_states s WHERE s.thread_id = t.thread_id)
		AND NOT EXISTS (SELECT 1 FROM job_orders o WHERE o.thread_id = t.thread_id)
		ORDER BY length(t.thread_id) DESC`)
	if err != nil {
		return nil, fmt.Errorf("list unfinished threads: %w", err)
	}
	return ids, nil
}
