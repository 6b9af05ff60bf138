package wasmhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// workerEnv is the variable that makes Main a worker; it holds a job as JSON.
const workerEnv = "LIGHTWORK_WASM_WORKER"

// job tells a worker which tool to load.
type job struct {
	Tool   string `json:"tool"`   // folder
	Digest string `json:"digest"` // of the folder's contents when the tool was offered
	State  string `json:"state"`
}

// A worker first sends one ready, then reads inputs and answers each with one
// reply. All messages are frames (package frame).

// ready says that a worker can take calls, or why not.
type ready struct {
	Error       string `json:"error,omitzero"`
	Description string `json:"description,omitzero"` // from get-metadata
}

// reply is the outcome of a call: an output, or a failure for the caller.
type reply struct {
	Output  json.RawMessage `json:"output,omitzero"`
	Code    string          `json:"code,omitzero"`
	Message string          `json:"message,omitzero"`
}

// workerBytes is the memory that a worker may use besides its module's: for the
// program, the Go runtime and the compiler.
const workerBytes = 768 << 20

// work runs a worker until its input ends.
func work(ctx context.Context, doc string, in io.Reader, out, stderr io.Writer) error {
	r, meta, err := start(ctx, doc, stderr)
	first := ready{Description: wire.SafeText(meta.Description)}
	if err != nil {
		first.Error = wire.SafeText(err.Error())
		return errors.Join(err, send(out, first))
	}
	defer r.Close(ctx)

	if err := send(out, first); err != nil {
		return err
	}

	frames := frame.NewReader(in, 0)
	for {
		input, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read input: %w", err)
		}
		output, err := r.Call(ctx, input)
		if err := send(out, outcome(output, err)); err != nil {
			return err
		}
	}
}

func start(ctx context.Context, doc string, stderr io.Writer) (*wasm.Runner, wasm.Metadata, error) {
	var j job
	if err := json.Unmarshal([]byte(doc), &j); err != nil {
		return nil, wasm.Metadata{}, fmt.Errorf("read job: %w", err)
	}
	tool, err := wasm.Load(j.Tool)
	if err != nil {
		return nil, wasm.Metadata{}, err
	}
	if tool.Digest != j.Digest {
		return nil, wasm.Metadata{}, fmt.Errorf("wasmhost: tool %s has changed since it was offered: restart the agent", tool.Name)
	}

	// A growing memory is copied, and old copies wait for the garbage collector.
	// RLIMIT_DATA, unlike RLIMIT_AS, does not count memory that is only reserved.
	limit := workerBytes + 3*uint64(tool.Settings.Limits.MemoryPages)<<16
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return nil, wasm.Metadata{}, fmt.Errorf("limit memory: %w", err)
	}
	r, err := wasm.NewRunner(ctx, tool, wasm.RunnerConfig{StateDir: j.State, Stderr: stderr})
	if err != nil {
		return nil, wasm.Metadata{}, err
	}
	meta, _, err := r.Metadata(ctx)
	if err != nil {
		return nil, wasm.Metadata{}, errors.Join(err, r.Close(ctx))
	}
	return r, meta, nil
}

// outcome returns a distinct code for every way in which a call can end.
func outcome(output json.RawMessage, err error) reply {
	var failure *wasm.Failure
	code, message := wire.CodeFailed, ""
	switch {
	case err == nil:
		return reply{Output: output}
	case errors.As(err, &failure):
		message = failure.Message
	case errors.Is(err, wasm.ErrOutputTooLarge):
		code, message = wire.CodeOutputTooLarge, err.Error()
	case errors.Is(err, wasm.ErrOutput):
		code, message = wire.CodeInvalidOutput, err.Error()
	default:
		message = err.Error()
	}

	return reply{Code: code, Message: wire.SafeText(message)}
}

func send(w io.Writer, v any) error {
	doc, err := jsonv2.Marshal(v) // encoding/json writes six bytes for each "<"
	if err != nil {
		return fmt.Errorf("marshal frame: %w", err)
	}
	return sendRaw(w, doc)
}

func sendRaw(w io.Writer, doc []byte) error {
	buf, err := frame.Append(nil, doc, 0)
	if err != nil {
		return err
	}
	if _, err := w.Write(buf); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
