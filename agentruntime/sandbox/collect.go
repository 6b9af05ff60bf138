package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/internal/watchdog"
)

// collector turns init's report into an outcome.
type collector struct {
	plan      *plan
	pids      int // the limit on processes and threads, for messages
	stream    func(channel, text string)
	out       outcome
	artifacts artifactStore
	fatal     fatalReport
	ended     bool
}

// collect reads the report to its end. It does not wait for init, which is killed.
// A violation of the protocol is an error, since init is this program.
func (c *collector) collect(r io.Reader) error {
	buf := make([]byte, chunkSize)
	for {
		kind, payload, err := readFrame(r, buf)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // conclude decides whether the report is complete
		}
		if err != nil {
			return fmt.Errorf("read sandbox report: %w", err)
		}
		if err := c.take(kind, payload); err != nil || c.ended {
			return err
		}
	}
}

func (c *collector) take(kind byte, payload []byte) error {
	switch kind {
	case frameReady:
		if err := json.Unmarshal(payload, &c.out.walls); err != nil {
			return fmt.Errorf("read sandbox report: %w", err)
		}
		return nil
	case frameStart:
		return c.start()
	case frameStdout, frameStderr, frameExit:
		n := len(c.out.runs)
		if n == 0 || c.out.runs[n-1].finished {
			return fmt.Errorf("read sandbox report: frame %q outside a command", kind)
		}
		r := c.out.runs[n-1]
		if kind == frameExit {
			return r.finish(payload)
		}
		return r.write(kind, payload)
	case frameArtifact:
		var h artifactHeader
		if err := json.Unmarshal(payload, &h); err != nil {
			return fmt.Errorf("read sandbox report: %w", err)
		}
		return c.artifacts.begin(h)
	case frameData:
		return c.artifacts.data(payload)
	case frameFatal:
		if err := json.Unmarshal(payload, &c.fatal); err != nil {
			return fmt.Errorf("read sandbox report: %w", err)
		}
		c.ended = true
		return nil
	case frameEnd:
		c.ended = true
		return nil
	}

	return fmt.Errorf("read sandbox report: unknown frame %q", kind)
}

func (c *collector) start() error {
	n := len(c.out.runs)
	if n == len(c.plan.Commands) {
		return errors.New("read sandbox report: more commands than planned")
	}
	c.out.runs = append(c.out.runs, &commandRun{
		cmd: c.plan.Commands[n].Cmd, started: time.Now(),
		stdout: newStream("stdout", c.stream), stderr: newStream("stderr", c.stream),
	})
	return nil
}

func (r *commandRun) finish(payload []byte) error {
	var report exitReport
	if err := json.Unmarshal(payload, &report); err != nil {
		return fmt.Errorf("read sandbox report: %w", err)
	}
	r.exitCode, r.durationMs, r.finished = report.ExitCode, report.DurationMs, true
	r.end()
	return nil
}

// limitText names the exceeded bound as results do.
func limitText(over error) string {
	var memory *watchdog.MemoryError
	var tasks *watchdog.TasksError
	switch {
	case errors.As(over, &memory):
		return "out_of_memory: " + memory.Error()
	case errors.As(over, &tasks):
		return "process_limit: " + tasks.Error()
	}
	return over.Error()
}

// conclude decides between an outcome and an error.
func (c *collector) conclude(err error, reason stopReason, over error, complaint string) (*outcome, error) {
	out := &c.out
	out.artifacts = c.artifacts.done

	switch {
	case over != nil && !c.ended:
		out.stopped, out.limit = stopLimit, limitText(over)
	case errors.Is(err, errOutputLimit):
		out.stopped, out.limit = stopLimit, err.Error()
	case c.fatal.Stage == stageLimit:
		out.limit = c.fatal.Error
	case err != nil:
		return nil, err
	case c.fatal.Stage == stageSource:
		return nil, &RequestError{Field: "repo.source", Reason: c.fatal.Error}
	case c.fatal.Stage != "":
		return nil, &ConfineError{Missing: []string{c.fatal.Error}}
	case c.ended:
	case reason != stopNone:
		out.stopped = reason
	case out.oomKills > 0: // process 1 itself was killed
	case out.forksRefused > 0 && len(out.runs) > 0: // process 1 died because its commands left it no threads
		out.limit = fmt.Sprintf("process_limit: the commands filled all %d processes and threads of the job", c.pids)
	case out.level != LevelFull && len(out.runs) > 0 && strings.Contains(complaint, "pthread_create failed"), strings.Contains(complaint, "failed to create new OS thread"):
		out.limit = fmt.Sprintf("process_limit: the commands filled all %d processes and threads of the job", c.pids)
	default:
		return nil, fmt.Errorf("%w: %s", ErrSandboxDied, complaint)
	}

	for _, r := range out.runs {
		if !r.finished {
			r.exitCode = exitSignalBase + int(syscall.SIGKILL)
			r.durationMs = time.Since(r.started).Milliseconds()
			r.end()
		}
	}

	return out, nil
}
