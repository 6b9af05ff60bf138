// Package supervisor runs agents: it launches each as its own process, speaks
// the OpenSentience runtime protocol with it, routes tool calls to it, and
// restarts or ends it. It is the core side of the protocol and needs Linux.
//
// The supervisor starts its own program a second time as a small process
// between itself and every agent; package guard says what that guarantees.
package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Config sets up a Supervisor. Zero values give the documented defaults.
type Config struct {
	// SocketDir holds one private directory per running agent. It is created
	// if missing. Its path plus 11 bytes must fit a socket address (107 bytes).
	SocketDir string

	HeartbeatInterval time.Duration // 5 s; 3 missed: unhealthy, 6 missed: killed
	HandshakeTimeout  time.Duration // 10 s from launch to registered
	TokenTTL          time.Duration // 2 min
	CancelGrace       time.Duration // 500 ms for an agent to answer a cancel
	StopGrace         time.Duration // 3 s between SIGTERM and SIGKILL

	MaxFrameBytes int // 4 MiB
	MaxInflight   int // 256 calls per agent

	// CloseOnUnknown ends a session at a message of an unknown type that
	// expects no reply, instead of ignoring it.
	CloseOnUnknown bool

	// CgroupRoot is where cgroups are mounted; /sys/fs/cgroup.
	CgroupRoot string

	CoreVersion string // told to agents; "0.0.0"
	InstanceID  string // told to agents; random

	// Audit and OnLog get events and agent output. They are called from
	// several goroutines and must return quickly. Nil drops audit events, and
	// sends output lines to Log at debug level.
	Audit func(AuditEvent)
	OnLog func(LogLine)

	Log *slog.Logger // nil discards
}

func (c *Config) fill() error {
	if c.SocketDir == "" {
		return errors.New("supervisor: Config.SocketDir is required")
	}
	dir, err := filepath.Abs(c.SocketDir)
	if err != nil {
		return fmt.Errorf("resolve socket directory: %w", err)
	}
	c.SocketDir = dir
	setDefault(&c.HeartbeatInterval, 5*time.Second)
	setDefault(&c.HandshakeTimeout, 10*time.Second)
	setDefault(&c.TokenTTL, 2*time.Minute)
	setDefault(&c.CancelGrace, 500*time.Millisecond)
	setDefault(&c.StopGrace, 3*time.Second)
	setDefault(&c.MaxFrameBytes, frame.DefaultMaxBytes)
	setDefault(&c.MaxInflight, 256)
	if c.HeartbeatInterval < time.Millisecond {
		return errors.New("supervisor: Config.HeartbeatInterval must be a millisecond or more")
	}
	if c.CgroupRoot == "" {
		c.CgroupRoot = cgroup.DefaultRoot
	}
	if c.CoreVersion == "" {
		c.CoreVersion = "0.0.0"
	}
	if c.InstanceID == "" {
		c.InstanceID = wire.NewID()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = func(AuditEvent) {}
	}
	if c.OnLog == nil {
		log := c.Log
		c.OnLog = func(l LogLine) {
			log.Debug("agent output", "agent", l.AgentID, "run", l.RunID, "stream", l.Stream, "text", l.Text)
		}
	}

	return nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Spec describes one agent.
type Spec struct {
	ID      string   // agent id; the prefix of its tools
	Version string   // as in the manifest; a hello with another is refused; "" accepts any
	Command []string // program and arguments; no shell. An absolute path, or a name looked up in PATH
	Dir     string   // working directory; "" is that of the supervisor
	Env     []string // NAME=value. Nothing is inherited but PATH

	// UID and GID run the agent as another user; 0 keeps the supervisor's.
	UID, GID int

	// Confine bounds what the agent can reach; nil leaves it what its user can.
	Confine *guard.Confinement

	// ManifestHash is what was approved. A hello that names another is refused.
	ManifestHash string

	// Tools declares the slots: names that calls may be routed to. What the
	// agent registers beyond them has no route (K-2).
	Tools []string

	// Allow is asked before every launch, also after a crash; an error keeps
	// the agent down until Restart. Nil allows.
	Allow func() error

	Restart RestartPolicy
	Limits  Limits
}

// RestartPolicy says how often an agent that ends by itself is started again.
// When Max restarts within Window are used up, it stays down until Restart.
type RestartPolicy struct {
	Never      bool
	Max        int           // 5
	Window     time.Duration // 1 min
	MinBackoff time.Duration // 200 ms, doubled for every restart within Window
	MaxBackoff time.Duration // 10 s
}

// Limits bound an agent's calls and its processes.
type Limits struct {
	// Group bounds all processes of the agent together: memory, processes and
	// threads, processor time. Where there are no cgroups to do so a watchdog ends
	// an agent that has too much memory or too many processes, and nothing bounds
	// its processor time; its status and the log say so.
	Group          cgroup.Limits
	Concurrent     int           // calls in flight; Config.MaxInflight
	OpenFiles      uint64        // of each process; 0 keeps the node's
	CallTimeout    time.Duration // for a Call without one; 15 s
	MaxInputBytes  int           // what fits in a frame
	MaxOutputBytes int           // what fits in a frame
	// PerTool sets lower byte limits for single tools, by name.
	PerTool map[string]ToolLimits
	// KillRunaway kills the agent, with all its other calls, when a call has
	// not ended CancelGrace after its deadline. Otherwise such a call keeps
	// its place among the calls in flight until it ends.
	KillRunaway bool
}

// ToolLimits are the byte limits of one tool; 0 keeps the agent's.
type ToolLimits struct{ MaxInputBytes, MaxOutputBytes int }

const envPrefix = "OPENSENTIENCE_"

func (s *Spec) fill(maxFrame, maxInflight int) error {
	switch {
	case !wire.ValidAgentID(s.ID):
		return fmt.Errorf("supervisor: malformed agent id %q", s.ID)
	case s.Version != "" && !wire.ValidVersion(s.Version):
		return fmt.Errorf("supervisor: agent %s: version must be a semantic version", s.ID)
	case len(s.Command) == 0 || s.Command[0] == "":
		return fmt.Errorf("supervisor: agent %s: no command", s.ID)
	case strings.Contains(s.Command[0], "/") && !filepath.IsAbs(s.Command[0]):
		return fmt.Errorf("supervisor: agent %s: command must be an absolute path or a bare name", s.ID)
	case s.UID < 0 || s.GID < 0:
		return fmt.Errorf("supervisor: agent %s: negative uid or gid", s.ID)
	}

	for _, name := range s.Tools {
		if !wire.ValidToolName(name) {
			return fmt.Errorf("supervisor: agent %s: malformed tool name %q", s.ID, name)
		}
	}

	for _, kv := range s.Env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(name, envPrefix) || name == guard.Env || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("supervisor: agent %s: environment variable %q is not allowed", s.ID, name)
		}
	}

	setDefault(&s.Restart.Max, 5)
	setDefault(&s.Restart.Window, time.Minute)
	setDefault(&s.Restart.MinBackoff, 200*time.Millisecond)
	setDefault(&s.Restart.MaxBackoff, 10*time.Second)
	setDefault(&s.Limits.CallTimeout, 15*time.Second)
	setDefault(&s.Limits.Concurrent, maxInflight)
	s.Limits.Concurrent = min(s.Limits.Concurrent, maxInflight)
	setDefault(&s.Limits.MaxInputBytes, maxFrame)
	setDefault(&s.Limits.MaxOutputBytes, maxFrame)
	return nil
}

// declares reports whether calls may be routed to the tool.
func (s *Spec) declares(tool string) bool { return slices.Contains(s.Tools, tool) }

// byteLimits returns the input and output limit of a tool.
func (s *Spec) byteLimits(tool string) (in, out int) {
	in, out = s.Limits.MaxInputBytes, s.Limits.MaxOutputBytes
	t := s.Limits.PerTool[tool]
	if t.MaxInputBytes > 0 {
		in = min(in, t.MaxInputBytes)
	}
	if t.MaxOutputBytes > 0 {
		out = min(out, t.MaxOutputBytes)
	}
	return in, out
}

// environ is the environment of a launched agent.
func (s *Spec) environ(r *run, beat time.Duration) []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	env = append(env, s.Env...) // a later PATH wins
	return append(env,
		envPrefix+"SOCKET_PATH="+r.socket,
		envPrefix+"SESSION_TOKEN="+r.token.secret,
		envPrefix+"AGENT_ID="+s.ID,
		envPrefix+"RUN_ID="+r.id,
		envPrefix+"INSTALL_PATH="+s.Dir,
		fmt.Sprintf("%sHEARTBEAT_INTERVAL_MS=%d", envPrefix, beat.Milliseconds()),
	)
}
