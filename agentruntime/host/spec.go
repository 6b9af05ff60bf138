package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

// spec makes an agent's Spec from its current manifest and its approval. Without a valid
// approval it returns [manifest.ErrNotApproved].
func (h *Host) spec(e *entry) (supervisor.Spec, error) {
	if e.installed == nil {
		return e.builtIn, nil
	}
	m, approval, err := h.approved(e)
	if err != nil {
		return supervisor.Spec{}, err
	}
	spec := SpecOf(e.installed, m, approval.Permissions)
	if spec.Confine != nil {
		spec.Confine.Others = h.othersMayChange(e)
		if err := h.keepsOut(e.installed, spec.Confine); err != nil {
			return supervisor.Spec{}, err
		}
	}

	spec.Allow = func() error {
		_, _, err := h.approved(e)
		return err
	}
	return spec, nil
}

func (h *Host) approved(e *entry) (*manifest.Manifest, manifest.Approval, error) {
	if e.broken != nil {
		return nil, manifest.Approval{}, e.broken
	}
	m, err := manifest.Read(filepath.Join(e.installed.Dir, manifest.FileName))
	if err != nil {
		return nil, manifest.Approval{}, err
	}
	if m.ID != e.id {
		return nil, manifest.Approval{}, &manifest.DriftError{AgentID: e.id, What: "id"}
	}
	ap, err := h.cfg.Approvals.Check(e.installed.Dir, m)
	return m, ap, err
}

// Defaults where a manifest is silent (OSX-11).
const (
	defaultCallTime   = 15 * time.Second
	defaultConcurrent = 3
	defaultMemoryMB   = 256
	// Of processes and threads; OSX-11 has none for them, and a share of a core
	// is no default here: it would slow every start.
	defaultProcesses = 128
)

// SpecOf returns the Spec of an installed agent with the permissions that it was granted.
// A program with a path must be below the agent's folder.
func SpecOf(in *Installed, m *manifest.Manifest, granted []string) supervisor.Spec {
	command := m.Command()
	if strings.Contains(command[0], "/") && !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(in.Dir, command[0])
	}
	l := m.ExecutionLimits
	spec := supervisor.Spec{
		ID: m.ID, Version: m.Version, Command: command, Dir: in.Dir, Env: in.Env,
		UID: in.UID, GID: in.GID, ManifestHash: m.Hash, Tools: in.Tools,
		Limits: supervisor.Limits{
			CallTimeout: defaultCallTime, Concurrent: defaultConcurrent,
			OpenFiles: uint64(l.OpenFiles),
			Group: cgroup.Limits{
				MemoryBytes: cmp.Or(l.MemoryMB, defaultMemoryMB) << 20,
				Pids:        int(cmp.Or(l.Processes, defaultProcesses)),
				CPUs:        float64(l.CPUMillis) / 1000,
			},
		},
	}
	if !in.Unconfined {
		spec.Confine = confinement(in, command[0], granted)
		spec.Env = append([]string{"TMPDIR=" + in.Dir}, in.Env...)
	}

	if l.MaxToolCallDurationSecs > 0 {
		spec.Limits.CallTimeout = time.Duration(l.MaxToolCallDurationSecs) * time.Second
	}
	if l.MaxConcurrentCalls > 0 {
		spec.Limits.Concurrent = l.MaxConcurrentCalls
	}
	return spec
}

// keepsOut refuses a confinement that gives access to the node's data. The data can be in
// a system folder that every agent may read, such as /opt, or below a folder that a
// permission names. An agent under another user cannot read it anyway.
func (h *Host) keepsOut(in *Installed, c *guard.Confinement) error {
	private, err := filepath.EvalSymlinks(h.cfg.Private)
	if h.cfg.Private == "" || in.UID != 0 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the node's data: %w", err)
	}

	for _, p := range slices.Concat(c.Read, c.Write) {
		to, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue // it opens nothing
		}
		if isBelow(private, to) || isBelow(to, private) && p != in.Dir {
			return fmt.Errorf("it could read the node's keys: it may reach %s, and the node's data is in %s. Move the data (node.data_dir), or give the agent an account of its own (uid, gid)", p, private)
		}
	}

	return nil
}

// isBelow reports whether a path is the folder or below it. Neither may have links.
func isBelow(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// othersMayChange returns the folders that other installed agents may change.
func (h *Host) othersMayChange(e *entry) (folders []string) {
	for _, id := range h.ids() {
		o := h.entries[id]
		if o == e || o.installed == nil {
			continue
		}
		granted := []string(nil) // of one that is not approved, its folder is left from when it was
		if _, approval, err := h.approved(o); err == nil {
			granted = approval.Permissions
		}
		folders = append(folders, confinement(o.installed, "", granted).Write...)
	}

	return folders
}

// Permits reports whether an agent may use a tool of another agent: because it was
// granted tool:invoke:AGENT/TOOL, or because it is built in. An agent without an approval
// may use none.
func (h *Host) Permits(agent, toolID string) bool {
	e, err := h.entry(agent)
	if err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.installed == nil {
		return true
	}
	_, approval, err := h.approved(e)
	return err == nil && slices.Contains(approval.Permissions, permitInvoke+toolID)
}

// Forms of permissions that the node knows. Others mean something to the agent
// alone.
const (
	permitRead    = "filesystem:read:"
	permitWrite   = "filesystem:write:"
	permitNetwork = "network:egress:"
	permitInvoke  = "tool:invoke:" // what a pipeline's table may then have
)

// confinement lets the agent reach the system's programs, its own folder, and what it was
// granted. A grant for one host opens the whole network, because Landlock cannot filter
// by host.
func confinement(in *Installed, program string, granted []string) *guard.Confinement {
	c := &guard.Confinement{
		Read:  slices.Concat(guard.SystemPaths(), []string{"/proc"}, in.Read),
		Write: []string{in.Dir, "/dev/null", "/dev/zero", "/dev/full"},
	}
	if path, err := exec.LookPath(program); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			c.Read = append(c.Read, path)
		}
	}

	for _, p := range granted {
		switch {
		case strings.HasPrefix(p, permitRead):
			c.Read = append(c.Read, below(p[len(permitRead):]))
		case strings.HasPrefix(p, permitWrite):
			c.Write = append(c.Write, below(p[len(permitWrite):]))
		case strings.HasPrefix(p, permitNetwork):
			c.Network = true
		}
	}

	return c
}

// SystemOnly confines a program of our own to the system's files, what it may
// read beside them, and the network if it needs that.
func SystemOnly(program string, network bool, read ...string) *guard.Confinement {
	c := confinement(&Installed{Dir: "/nonexistent", Read: read}, program, nil)
	c.Network = network
	return c
}

// below returns the folder of a pattern such as /srv/texts/**. A pattern within a name
// grants nothing, because Landlock cannot enforce it.
func below(pattern string) string {
	pattern = strings.TrimSuffix(strings.TrimSuffix(pattern, "**"), "*")
	if !filepath.IsAbs(pattern) || strings.ContainsAny(pattern, "*?[") {
		return "/nonexistent"
	}
	return filepath.Clean(pattern)
}
