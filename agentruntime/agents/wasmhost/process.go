package wasmhost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
)

// worker is a worker process from the host's side. One goroutine at a time uses it.
type worker struct {
	tool    *wasm.Tool
	cmd     *exec.Cmd
	in, out *os.File // the host's ends
	frames  *frame.Reader
	exited  chan struct{} // closed when the process has been reaped
	kill    sync.Once
	ready   ready
}

// startWorker starts a worker for the tool and waits until it is ready for calls.
// The end of ctx stops it during the start.
func startWorker(ctx context.Context, cfg *Config, tool *wasm.Tool) (*worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	doc, err := json.Marshal(job{Tool: tool.Dir, Digest: tool.Digest, State: cfg.StateDir})
	if err != nil {
		return nil, fmt.Errorf("marshal job: %w", err)
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)

	// The environment holds nothing else: no token, no path. Without a traceback,
	// running out of memory is reported in one line.
	cmd.Env = []string{workerEnv + "=" + string(doc), "GOTRACEBACK=none"}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w := &worker{tool: tool, cmd: cmd, exited: make(chan struct{})}
	if err := w.launch(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	first, err := w.exchange(ctx, nil)
	if err == nil {
		err = json.Unmarshal(first, &w.ready)
	}
	if err == nil && w.ready.Error != "" {
		err = fmt.Errorf("%w: %s", errNotReady, w.ready.Error)
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// launch starts the process with a pipe in each direction.
func (w *worker) launch() error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirIn.Close()

	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return err
	}
	defer theirOut.Close()

	w.cmd.Stdin, w.cmd.Stdout = theirIn, theirOut
	w.in, w.out, w.frames = in, out, frame.NewReader(out, 0)
	started := make(chan error)
	go w.run(started)
	if err := <-started; err != nil {
		in.Close()
		out.Close()
		return err
	}
	return nil
}

// run owns the process from its start until it is reaped. The parent-death signal
// is sent when the thread that started the process ends, so that thread is kept.
func (w *worker) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := w.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = w.cmd.Wait() // how it ended shows on its pipe
	close(w.exited)
}

// exchange sends a frame, unless it is nil, and returns the worker's next one. If
// ctx ends first, the worker is killed. After any error the worker can only be
// stopped.
func (w *worker) exchange(ctx context.Context, doc []byte) ([]byte, error) {
	unwatch := context.AfterFunc(ctx, w.end)
	var err error
	if doc != nil {
		err = sendRaw(w.in, doc)
	}
	var answer []byte
	if err == nil {
		answer, err = w.frames.Next()
	}
	if !unwatch() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errWorkerGone, err)
	}

	return answer, nil
}

// end kills the process.
func (w *worker) end() { w.kill.Do(func() { _ = w.cmd.Process.Kill() }) }

// stop kills the process, waits for it and releases its resources.
func (w *worker) stop() {
	w.end()
	<-w.exited
	w.in.Close()
	w.out.Close()
}

// hasExited reports whether the process has ended.
func (w *worker) hasExited() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}
