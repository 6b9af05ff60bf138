package model

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

// maxLine bounds a line and an event of a stream, in bytes.
const maxLine = 1 << 20

// events reads the data of server-sent events. It is used by one goroutine.
type events struct {
	lines *bufio.Scanner
	// alive is called for every whole line. A stream that drips single bytes does
	// not count as alive.
	alive func()
	first bool
}

func newEvents(r io.Reader, alive func()) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	lines.Split(splitLine)
	return &events{lines: lines, alive: alive, first: true}
}

// splitLine splits at \n and strips a preceding \r. An unfinished line at the end
// is dropped, as the specification requires: the stream was cut there.
func splitLine(data []byte, _ bool) (advance int, line []byte, err error) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return 0, nil, nil
	}
	return i + 1, bytes.TrimSuffix(data[:i], []byte("\r")), nil
}

// next returns the data of the next event that has any, its lines joined by
// newlines. It returns io.EOF at the end of the stream.
func (e *events) next() ([]byte, error) {
	var data []byte
	has := false
	for e.lines.Scan() {
		e.alive()
		line := e.lines.Bytes()
		if e.first {
			line, e.first = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), false
		}
		if len(line) == 0 {
			if has {
				return data, nil
			}
			continue
		}

		// Other fields and comments (which have an empty name) are ignored.
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) != "data" {
			continue
		}
		if has {
			data = append(data, '\n')
		}
		data, has = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		if len(data) > maxLine {
			return nil, &chat.Error{Reason: chat.ErrTooLarge, Detail: "an event of the stream"}
		}
	}

	switch err := e.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &chat.Error{Reason: chat.ErrTooLarge, Detail: "a line of the stream"}
	case err != nil:
		return nil, fmt.Errorf("read stream: %w", err)
	}

	return nil, io.EOF
}
