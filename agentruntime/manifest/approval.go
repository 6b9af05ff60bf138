package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Approval is an operator's consent: this agent, with these bytes of its
// manifest, in this folder, may run and may do this.
type Approval struct {
	AgentID      string    `json:"agent_id"`
	Dir          string    `json:"dir"`
	ManifestHash string    `json:"manifest_hash"`
	Permissions  []string  `json:"permissions"` // a part of what the manifest asks for
	ApprovedAt   time.Time `json:"approved_at"`
}

// ErrNotApproved: nobody approved the agent, or it has changed since.
var ErrNotApproved = errors.New("not approved")

// DriftError says in what an agent differs from what was approved. It is
// ErrNotApproved.
type DriftError struct {
	AgentID string
	What    string // "manifest" or "folder"
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("agent %s: its %s changed since it was approved", e.AgentID, e.What)
}

// Is makes errors.Is(err, ErrNotApproved) true.
func (e *DriftError) Is(target error) bool { return target == ErrNotApproved }

// Approvals keeps approvals, one file an agent.
type Approvals struct{ dir string }

// OpenApprovals uses a folder, which is made if it is missing. Only its owner
// may be able to change it.
func OpenApprovals(dir string) (*Approvals, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open approvals: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("open approvals: %w", err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.IsDir() || !ok || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("open approvals: %s must be a folder of ours that nobody else can write", dir)
	}
	return &Approvals{dir: dir}, nil
}

// At reads approvals from a folder that may be missing.
func At(dir string) *Approvals { return &Approvals{dir: dir} }

func (a *Approvals) path(id string) string { return filepath.Join(a.dir, id+".json") }

// Approve records consent to an agent as it is now. permissions must be asked
// for by the manifest; nil grants none (deny by default).
func (a *Approvals) Approve(dir string, m *Manifest, permissions []string, now time.Time) (Approval, error) {
	asked := trimAll(m.Permissions)
	granted := trimAll(permissions)
	for _, p := range granted {
		if !slices.Contains(asked, p) {
			return Approval{}, fmt.Errorf("approve %s: the manifest does not ask for %q", m.ID, p)
		}
	}

	ap := Approval{AgentID: m.ID, Dir: dir, ManifestHash: m.Hash, Permissions: granted, ApprovedAt: now.UTC()}
	raw, err := json.MarshalIndent(ap, "", "  ")
	if err != nil {
		return Approval{}, err
	}
	return ap, a.write(m.ID, append(raw, '\n'))
}

// write replaces the agent's file at once: a crash leaves the old one or the new.
func (a *Approvals) write(id string, raw []byte) error {
	f, err := os.CreateTemp(a.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("record approval: %w", err)
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), a.path(id))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("record approval: %w", err)
	}
	return nil
}

// Revoke removes an agent's approval. One that is not there is fine.
func (a *Approvals) Revoke(id string) error {
	if !wire.ValidAgentID(id) {
		return &Error{CodeInvalidField, "id", "malformed"}
	}
	if err := os.Remove(a.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("revoke approval: %w", err)
	}
	return nil
}

// Get reads an agent's approval; ErrNotApproved without one.
func (a *Approvals) Get(id string) (Approval, error) {
	var ap Approval
	if !wire.ValidAgentID(id) {
		return ap, &Error{CodeInvalidField, "id", "malformed"}
	}
	f, err := os.OpenFile(a.path(id), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ap, fmt.Errorf("agent %s: %w", id, ErrNotApproved)
	}
	if err != nil {
		return ap, fmt.Errorf("read approval: %w", err)
	}

	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil {
		err = json.Unmarshal(raw, &ap)
	}
	if err != nil || ap.AgentID != id {
		return Approval{}, fmt.Errorf("read approval of %s: the file is damaged: %w", id, errors.Join(err, ErrNotApproved))
	}
	return ap, nil
}

// Check returns the approval of an agent as it is now. An agent that nobody
// approved, whose manifest changed by one byte, or that moved to another
// folder is refused: ErrNotApproved.
func (a *Approvals) Check(dir string, m *Manifest) (Approval, error) {
	ap, err := a.Get(m.ID)
	switch {
	case err != nil:
		return Approval{}, err
	case ap.ManifestHash != m.Hash:
		return Approval{}, &DriftError{m.ID, "manifest"}
	case ap.Dir != dir:
		return Approval{}, &DriftError{m.ID, "folder"}
	}
	return ap, nil
}

func trimAll(list []string) []string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, strings.TrimSpace(p))
	}
	return out
}
