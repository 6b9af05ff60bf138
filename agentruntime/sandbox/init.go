package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// File descriptors that Run passes to process 1.
const (
	planFD   = 3
	reportFD = 4
)

// guardedEnv is set if process 1 is held by a guard and not by a pid namespace.
const guardedEnv = "LIGHTWORK_SANDBOX_GUARDED"

const maxFatalText = 1 << 10

// stageError names the stage of init in which an error occurred.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// Init is process 1 of a sandbox. The program must call it when it is started with
// Options.Init as its arguments, and exit with its result. In any other situation
// it only prints an error: it changes mounts and ids only as process 1 of a pid
// namespace with a plan, and changes none below a guard.
func Init() int {
	// Namespaces, capabilities and no_new_privs belong to a thread, so commands are
	// started from this thread only.
	runtime.LockOSThread()
	guarded := os.Getenv(guardedEnv) != ""
	if os.Getpid() != 1 && !guarded {
		fmt.Fprintln(os.Stderr, "lightwork: sandbox-init can only be started by the sandbox agent")
		return 2
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "lightwork: sandbox-init: close_range:", err)
		return 2
	}

	// Commands of the same user may send signals here. A caught signal has no
	// effect; an ignored one would also be ignored by every command.
	signal.Notify(make(chan os.Signal, 1))
	in, out := os.NewFile(planFD, "plan"), os.NewFile(reportFD, "report")
	w := &frameWriter{w: out}
	err := runInit(in, w, guarded)
	if err == nil {
		return 0
	}
	report := fatalReport{Stage: stageConfine, Error: brief(err.Error())}
	if se := (*stageError)(nil); errors.As(err, &se) {
		report.Stage = se.stage
	}

	// If this fails, the exit below still ends every process of the sandbox.
	_ = w.writeJSON(frameFatal, report)
	return 1
}

// brief shortens an error that may quote the buyer's input.
func brief(text string) string {
	if len(text) > maxFatalText {
		text = text[:maxFatalText] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// runInit confines in the required order: mounts before the source is unpacked, the
// source before privileges are dropped, privileges before the first command.
func runInit(in *os.File, w *frameWriter, guarded bool) error {
	var p plan
	if err := readPlan(in, &p); err != nil {
		return err
	}
	if guarded != (p.Level == LevelLandlock) {
		return errors.New("the plan is for another level")
	}
	if err := p.Rlimits.set(); err != nil {
		return err
	}

	var up walls
	var err error
	if guarded { // without mounts, Landlock must confine before anything is read
		up, err = withdraw(&p)
	} else {
		err = enterNamespaces(&p)
	}

	if err != nil {
		return err
	}
	if p.Source {
		if err := unpackSource(in, &p); err != nil {
			return &stageError{stageSource, err}
		}
	}

	// From here on nothing is read; the end of the pipe means that the agent died.
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	if !guarded {
		if up, err = dropPrivileges(&p); err != nil {
			return err
		}
	}

	if err := w.writeJSON(frameReady, up); err != nil {
		return err
	}
	var before tree
	if p.Source && p.Summary {
		// Files that cannot be read now cannot be compared later, so there will be
		// no summary.
		if before, err = readTree(p.MountPath); err != nil {
			before = nil
		}
	}

	codes, err := runCommands(&p, w)
	if err != nil {
		return err
	}
	sent, err := sendArtifacts(&p, w)
	if err != nil {
		return err
	}
	if err := sendSummary(&p, codes, before, sent, w); err != nil {
		return err
	}

	return w.write(frameEnd, nil)
}

// enterNamespaces sets up the namespaces that process 1 was started in.
func enterNamespaces(p *plan) error {
	image, err := openImage(p)
	if err != nil {
		return err
	}
	if err := takeIdentity(p.Split); err != nil {
		return err
	}
	if err := isolate(p.Loopback); err != nil {
		return err
	}

	if p.Proxy {
		if err := offerProxy(); err != nil {
			return err
		}
	}

	if err := buildRoot(p, image); err != nil {
		return err
	}
	if image != nil { // an open image would be a way to the host's file system
		image.Close()
	}
	return nil
}

func readPlan(in io.Reader, p *plan) error {
	kind, doc, err := readFrame(in, nil)
	if err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if kind != framePlan {
		return fmt.Errorf("read plan: frame %q", kind)
	}
	if err := json.Unmarshal(doc, p); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	return nil
}
