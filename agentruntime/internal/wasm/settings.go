package wasm

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/hashing"
)

// Defaults and bounds of Limits. A page is 64 KiB.
const (
	defaultMemoryPages = 1024 // 64 MiB
	maxMemoryPages     = 16384
	defaultDeadline    = 300 * time.Second // APX-7
	maxDeadline        = 24 * time.Hour
	defaultOutputBytes = 1 << 20
	maxOutputBytes     = 3 << 20 // so that the output and its envelope fit in a frame
	maxMounts          = 16
	maxEnv             = 64
	maxEnvBytes        = 4096
)

// Settings is tool.json. It belongs to the operator, who decides what the module
// gets, within what its WIT declares (AP-13.2.2).
type Settings struct {
	Grants Grants `json:"grants"`
	Limits Limits `json:"limits"`
}

// Grants lists the access of a tool. The zero value grants nothing.
type Grants struct {
	FS     []Mount           `json:"fs"`
	Env    map[string]string `json:"env"`    // the complete environment
	Stdio  bool              `json:"stdio"`  // standard error goes to the agent's log
	Clock  bool              `json:"clock"`  // the real time, and real sleeping
	Random bool              `json:"random"` // the system's random numbers
	KV     KVGrant           `json:"kv"`
}

// Mount makes a directory of the host visible to the tool at GuestPath.
type Mount struct {
	HostPath  string `json:"host_path"`  // absolute
	GuestPath string `json:"guest_path"` // absolute
	ReadOnly  bool   `json:"read_only"`
}

// KVGrant lists the shared namespaces that the tool may use, each "read" or
// "read-write". The tool's own namespace needs no grant.
type KVGrant struct {
	Shared map[string]string `json:"shared"`
}

// Limits bounds one call. Zero values mean the defaults.
type Limits struct {
	MemoryPages uint32 `json:"memory_pages"` // of 64 KiB; default 1024
	DeadlineMS  int64  `json:"deadline_ms"`  // default 300,000
	OutputBytes int    `json:"output_bytes"` // default 1 MiB
}

// Deadline returns the time limit of a call.
func (l Limits) Deadline() time.Duration { return time.Duration(l.DeadlineMS) * time.Millisecond }

// parseSettings parses tool.json strictly; an empty document means the defaults.
func parseSettings(doc []byte, declared declaration) (Settings, error) {
	var s Settings
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &s, json.RejectUnknownMembers(true)); err != nil {
			return s, fmt.Errorf("wasm: read settings: %w", hashing.Mismatch(err))
		}
	}

	if err := s.Limits.fill(); err != nil {
		return s, err
	}
	if err := s.Grants.validate(); err != nil {
		return s, err
	}

	return s, s.Grants.checkDeclared(declared)
}

func (l *Limits) fill() error {
	if l.MemoryPages == 0 {
		l.MemoryPages = defaultMemoryPages
	}
	if l.DeadlineMS == 0 {
		l.DeadlineMS = defaultDeadline.Milliseconds()
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = defaultOutputBytes
	}

	switch {
	case l.MemoryPages > maxMemoryPages:
		return fmt.Errorf("wasm: memory_pages must be at most %d", maxMemoryPages)
	case l.DeadlineMS < 1 || l.DeadlineMS > maxDeadline.Milliseconds():
		return fmt.Errorf("wasm: deadline_ms must be from 1 to %d", maxDeadline.Milliseconds())
	case l.OutputBytes < 1 || l.OutputBytes > maxOutputBytes:
		return fmt.Errorf("wasm: output_bytes must be from 1 to %d", maxOutputBytes)
	}

	return nil
}

func (g *Grants) validate() error {
	if len(g.FS) > maxMounts || len(g.Env) > maxEnv {
		return fmt.Errorf("wasm: more than %d directories or %d variables", maxMounts, maxEnv)
	}

	guests := map[string]bool{}
	for i := range g.FS {
		m := &g.FS[i]
		switch {
		case !filepath.IsAbs(m.HostPath):
			return fmt.Errorf("wasm: host_path %q must be absolute", m.HostPath)
		case !path.IsAbs(m.GuestPath) || path.Clean(m.GuestPath) != m.GuestPath:
			return fmt.Errorf("wasm: guest_path %q must be absolute and clean", m.GuestPath)
		case guests[m.GuestPath]:
			return fmt.Errorf("wasm: guest_path %q is granted twice", m.GuestPath)
		}
		guests[m.GuestPath] = true
	}

	for name, value := range g.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") ||
			len(name)+len(value) > maxEnvBytes {
			return fmt.Errorf("wasm: environment variable %q is not allowed", name)
		}
	}

	for ns, mode := range g.KV.Shared {
		if !wire.ValidToolName(ns) || len(ns) > maxNamespace || mode != kvRead && mode != kvReadWrite {
			return fmt.Errorf("wasm: shared namespace %q must have a plain name and %q or %q", ns, kvRead, kvReadWrite)
		}
	}

	return nil
}

// checkDeclared checks the grants against the declaration (AP-13.2.2).
func (g *Grants) checkDeclared(declared declaration) error {
	for _, c := range []struct {
		granted bool
		what    capability
	}{
		{len(g.FS) > 0, capFS},
		{len(g.Env) > 0, capEnv},
		{g.Stdio, capStdio},
		{g.Clock, capClock},
		{g.Random, capRandom},
		{len(g.KV.Shared) > 0, capKV},
	} {
		if c.granted && !declared.has[c.what] {
			return fmt.Errorf("%w: %s needs an import of %s", ErrGrant, c.what, strings.Join(interfacesOf(c.what), " or "))
		}
	}

	return nil
}
