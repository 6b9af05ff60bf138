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

// File descriptors that Run hands to process 1.
const (
	planFD   = 3
	reportFD = 4
)

// guardedEnv is set where a guard and no pid namespace holds process 1.
const guardedEnv = "LIGHTWORK_SANDBOX_GUARDED"

const maxFatalText = 1 << 10

// stageError says which stage of init an error belongs to.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// Init is process 1 of a sandbox. The program must call it, and exit with what
// it returns, when it is started with Options.Init as its arguments. Called in
// any other situation it does nothing but complain: it changes mounts and ids
// only as process 1 of a pid namespace that was given a plan, and none where a
// guard has started it.
func Init() int {
	// Namespace membership, capabilities and no_new_privs belong to a thread;
	// commands are started from this one only.
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

	// Where commands have the same user they may send signals here. Caught they
	// do nothing; ignored they would be ignored by every command too.
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

	// Whether this arrives or not, the exit below ends every process here.
	_ = w.writeJSON(frameFatal, report)
	return 1
}

// brief bounds an error that may quote what the buyer sent.
func brief(text string) string {
	if len(text) > maxFatalText {
		text = text[:maxFatalText] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// runInit follows the order that confinement needs: mounts before the source,
// the source before privileges go, privileges before the first command.
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
	if guarded { // the walls take the place of the mounts, so they come first
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

	// From here nothing is read: the pipe only says that the agent lives.
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
		// What cannot be read now cannot be compared later: no summary is made.
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

// enterNamespaces finishes the namespaces that process 1 was born in.
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
	if image != nil { // else a way to the host's file system stays open
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
