package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Reports of process 1 on its pipe: one byte of kind, four bytes of length, the
// payload. The plan is sent to it in the same form. Only process 1 holds these
// pipes; commands never do.
const (
	framePlan     = 'p' // to init: JSON plan
	frameSource   = 'g' // to init: a piece of the tar.gz; an empty one ends it
	frameReady    = 'r' // JSON walls: the commands are confined and begin
	frameStart    = 's' // the next command begins
	frameStdout   = 'o'
	frameStderr   = 'e'
	frameExit     = 'x' // JSON exitReport
	frameArtifact = 'a' // JSON artifactHeader, followed by frameData
	frameData     = 'd' // a piece of the artifact; an empty one ends it
	frameFatal    = 'f' // JSON fatalReport; init ends
	frameEnd      = 'z' // the report is complete
)

// maxFrame bounds one payload; the plan is the largest.
const maxFrame = maxPlanBytes

// chunkSize is the amount of output in one frame.
const chunkSize = 32 << 10

// walls lists the optional confinement of the commands. Namespaces or their
// substitutes and the system call filter are required and not listed.
type walls struct {
	Landlock int `json:"landlock"` // version in force; 0: the kernel has none
}

type exitReport struct {
	ExitCode   int   `json:"exit_code"`
	DurationMs int64 `json:"duration_ms"`
}

type artifactHeader struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// Stages of a fatalReport, which show whose fault it is.
const (
	stageConfine = "confine"
	stageSource  = "source"
	stageLimit   = "limit"
)

type fatalReport struct {
	Stage string `json:"stage"`
	Error string `json:"error"`
}

// frameWriter serialises the two output pumps and the main thread of init.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frameWriter) write(kind byte, payload []byte) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("write frame %q: %d bytes are too many", kind, len(payload))
	}
	f.mu.Lock()
	defer f.mu.Unlock()

	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := f.w.Write(head[:]); err != nil {
		return fmt.Errorf("write frame %q: %w", kind, err)
	}
	if _, err := f.w.Write(payload); err != nil {
		return fmt.Errorf("write frame %q: %w", kind, err)
	}

	return nil
}

func (f *frameWriter) writeJSON(kind byte, v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write frame %q: %w", kind, err)
	}
	return f.write(kind, doc)
}

// readFrame reads the next frame, into buf if it is large enough. io.EOF is a clean
// end between two frames.
func readFrame(r io.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("read frame %q: %d bytes are too many", head[0], n)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	payload = buf[:n]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("read frame %q: %w", head[0], err)
	}
	return head[0], payload, nil
}

// frameStream reads the payloads of one kind as a byte stream, up to the empty
// frame that ends it.
type frameStream struct {
	r    io.Reader
	kind byte
	rest []byte
	done bool
}

func (s *frameStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.done {
			return 0, io.EOF
		}
		kind, payload, err := readFrame(s.r, nil)
		if err != nil {
			return 0, fmt.Errorf("read stream: %w", err)
		}
		if kind != s.kind {
			return 0, fmt.Errorf("read stream: frame %q among %q", kind, s.kind)
		}
		s.rest, s.done = payload, len(payload) == 0
	}

	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// writeStream writes a stream for a frameStream.
func (f *frameWriter) writeStream(kind byte, from io.Reader) error {
	buf := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if err := f.write(kind, buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return f.write(kind, nil)
		case err != nil:
			return fmt.Errorf("read stream: %w", err)
		}
	}
}
