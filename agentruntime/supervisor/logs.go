package supervisor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"
)

const (
	maxLogLine = 8 << 10
	maxLogRun  = 5_000_000
	// lineFrame is what a line takes in the log beside its text: time, stream,
	// line end. Without it an agent could fill a disk with empty lines.
	lineFrame = 33
	truncated = "[TRUNCATED]"
	redacted  = "[REDACTED]"
)

// LogLine is one line that an agent wrote to stdout or stderr, cut to 8 KiB,
// without control characters and without its session token.
type LogLine struct {
	AgentID, RunID string
	Stream         string // "stdout" or "stderr"
	Text           string
}

// logCapture reads the output of one run. Both streams share the limit of
// 5 MB per run, as they are logged; what follows is read and dropped, so that the agent does not
// block on a full pipe.
type logCapture struct {
	agentID, runID string
	secret         string
	emit           func(LogLine)

	mu      sync.Mutex
	written int
	full    bool
	last    string // of stderr, for who wants to know why a launch failed
}

// lastWords is the end of what the run wrote to stderr, or "".
func (c *logCapture) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[:min(len(c.last), 500)]
}

// read consumes one stream to its end.
func (c *logCapture) read(stream string, src io.Reader) {
	// A cut inside the token would leave a part that no longer matches, so
	// lines are read longer than they are kept.
	r := bufio.NewReaderSize(src, maxLogLine+len(c.secret)+2)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			c.line(stream, line)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (c *logCapture) line(stream string, raw []byte) {
	text := strings.ReplaceAll(string(bytes.TrimRight(raw, "\r\n")), c.secret, redacted)
	text = text[:min(len(text), maxLogLine)]
	text = strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.full {
		return
	}
	if stream == "stderr" && text != "" {
		c.last = text
	}
	if c.written += lineFrame + len(text); c.written > maxLogRun {
		c.full = true
		text = truncated
	}

	c.emit(LogLine{AgentID: c.agentID, RunID: c.runID, Stream: stream, Text: text})
}
