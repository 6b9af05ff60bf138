package builtin

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/internal/display"
)

// scopeEnv is set in a program that systemd has been asked for a scope for.
const scopeEnv = "LIGHTWORK_SCOPE"

// scopeTimeout bounds how long systemd takes to say whether it gives a scope.
const scopeTimeout = 5 * time.Second

// TakeScope gives an ordinary user with a systemd session the control groups that
// full confinement needs: this program starts once more, in its own place, in a
// scope that the session's systemd delegates to it. It returns where there is
// nothing to gain, or nobody to ask; what is missing is then said by who needs it.
func TakeScope(ctx context.Context, log *slog.Logger) {
	if os.Getenv(scopeEnv) != "" {
		os.Unsetenv(scopeEnv) // nothing that is started from here has to know
		return
	}
	group, err := cgroup.New(cgroup.DefaultRoot, cgroup.Limits{MemoryBytes: 64 << 20, Pids: 16, CPUs: 1})
	if err == nil {
		_ = group.Remove()
		return
	}
	tool, err := exec.LookPath("systemd-run")
	session := os.Getenv("XDG_RUNTIME_DIR")
	if _, none := os.Stat(filepath.Join(session, "systemd", "private")); err != nil || session == "" || none != nil {
		return
	}

	// A trial first: there is no way back from taking the place of this program.
	args := []string{tool, "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--"}
	timed, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()

	if out, err := exec.CommandContext(timed, tool, append(args[1:], "true")...).CombinedOutput(); err != nil {
		log.Info("systemd gives no scope", "err", err, "said", display.Printable(string(out)))
		return
	}
	command := append([]string{display.Self()}, os.Args[1:]...)
	if err := syscall.Exec(tool, append(args, command...), append(os.Environ(), scopeEnv+"=1")); err != nil {
		log.Info("systemd gives no scope", "err", err)
	}
}
