package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/hashing"
)

// redactedProducer marks a header that Redact made.
const redactedProducer = "redacted@1"

// redactable are the fields for which a redacted line has hashes.
var redactable = []string{"params", "payload"}

// ErrTooLarge is returned for a file beyond its limits.
var ErrTooLarge = errors.New("replay is too large")

// Limits bound what Check and Redact read. Zero values mean the defaults.
type Limits struct {
	Bytes     int64 // of the file, default 64 MiB
	LineBytes int   // of one line, default 8 MiB
	Lines     int   // default 100,000
}

func (l Limits) orDefault() Limits {
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.LineBytes == 0 {
		l.LineBytes = 8 << 20
	}
	if l.Lines == 0 {
		l.Lines = 100_000
	}
	return l
}

// Check reads a complete file and returns what it says, or why it is not one:
// an error that wraps ErrInvalid, ErrTooLarge or the reader's own.
//
// Lines end with "\n", the last one too, and none is empty. A line need not be
// in canonical form to be checked: its trajectory hash is that of its canonical
// form. A file that Redact made must be exactly what Redact makes.
func Check(r io.Reader, limits Limits) (*Summary, error) {
	s := newSession()
	h := newHasher()
	o := &object{doc: new(hashing.Object)} // of one line after the other
	err := eachLine(r, limits.orDefault(), func(raw []byte) error {
		o.parse(raw[:len(raw)-1])
		line, err := parse(o)
		if err != nil {
			return invalid("%v", err)
		}
		if err := s.next(line); err != nil {
			return err
		}

		if s.Producer == redactedProducer {
			if err := checkRedacted(line, o); err != nil {
				return err
			}
		}

		h.add(o, raw)
		return nil
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("check replay: %w", err)
	}
	s.Hashes, s.IsCanonical = h.sums(), h.canonical
	return &s.Summary, nil
}

// eachLine calls f with every line, its line end included. The slice is only
// good during the call.
func eachLine(r io.Reader, limits Limits, f func(raw []byte) error) error {
	// One byte more than allowed tells a file at the limit from one beyond it.
	limited := &io.LimitedReader{R: r, N: limits.Bytes + 1}
	in := bufio.NewReader(limited)
	var raw []byte
	for count := 1; ; count++ {
		var err error
		raw, err = readLine(in, limits.LineBytes, raw)
		if limited.N <= 0 {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limits.Bytes)
		}
		if err == io.EOF && len(raw) == 0 {
			return nil
		}

		switch {
		case err == io.EOF:
			return invalid("line %d has no line end: the file is cut short", count)
		case err != nil:
			return fmt.Errorf("line %d: %w", count, err)
		case count > limits.Lines:
			return fmt.Errorf("%w: more than %d lines", ErrTooLarge, limits.Lines)
		}

		if err := f(raw); err != nil {
			return fmt.Errorf("line %d: %w", count, err)
		}
	}
}

// readLine collects one line up to limit bytes, line end included, in the room
// of another.
func readLine(in *bufio.Reader, limit int, line []byte) ([]byte, error) {
	line = line[:0]
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, limit)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// checkRedacted holds a line of a redacted file to the one form that Redact
// gives it, so that the redacted trajectory hash determines every byte. The
// time of the header, which that hash does not cover, session compares.
func checkRedacted(line Line, o *object) error {
	if !o.doc.IsCanonical() {
		return invalid("redacted, and %s is not in canonical form", clip(line.Event()))
	}
	if o.raw("params") != nil || o.raw("payload") != nil {
		return invalid("redacted, and %s has params or payload", clip(line.Event()))
	}

	if h, ok := line.(*ReplayHeader); ok {
		want, err := redactedHeader(h.CreatedAt)
		if err != nil || !bytes.Equal(o.whole, want) {
			return invalid("redacted, and its header says more than that")
		}
	}
	return nil
}

func redactedHeader(at Time) ([]byte, error) {
	return EncodeLine(&ReplayHeader{ReplayVersion: Version, Producer: redactedProducer, CreatedAt: at})
}

// Redact checks a file against the default limits and writes it without params
// and payload: for these their hashes stand. The result is determined by the
// lines that the redacted trajectory hash covers, so its header names neither
// the producer nor the time of writing. A redacted file comes out unchanged.
//
// What w has received when Redact fails is to be thrown away.
func Redact(r io.Reader, w io.Writer) error {
	s := newSession()
	err := eachLine(r, Limits{}.orDefault(), func(raw []byte) error {
		o := newObject(raw[:len(raw)-1])
		line, err := parse(o)
		if err != nil {
			return invalid("%v", err)
		}
		if err := s.next(line); err != nil {
			return err
		}
		return redactInto(w, line, o)
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return fmt.Errorf("redact replay: %w", err)
	}
	return nil
}

// redactInto writes nothing for the header: its replacement takes its time
// from SessionStart and is written just before that.
func redactInto(w io.Writer, line Line, o *object) error {
	if _, header := line.(*ReplayHeader); header {
		return nil
	}
	if start, ok := line.(*SessionStart); ok {
		header, err := redactedHeader(start.T)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(header, '\n')); err != nil {
			return err
		}
	}

	_, err := w.Write(append(bytes.Clone(o.doc.Without(redactable...)), '\n'))
	return err
}
