package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/hashing"
)

// redactedProducer is the producer in headers that Redact writes.
const redactedProducer = "redacted@1"

// redactableFields are the fields that Redact removes; their hashes stay in the line.
var redactableFields = []string{"params", "payload"}

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

// Check reads a complete file and returns its summary. The error wraps [ErrInvalid],
// [ErrTooLarge] or the reader's own error.
//
// Every line ends with "\n", and none is empty. A line need not be in canonical form:
// the trajectory hash covers its canonical form. A redacted file must be exactly what
// [Redact] writes.
func Check(r io.Reader, limits Limits) (*Summary, error) {
	s := newSession()
	h := newHasher()
	o := &object{doc: new(hashing.Object)} // reused for each line
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

// eachLine calls f with every line, including its line end. The slice is valid only
// during the call.
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

// readLine reads one line of at most limit bytes, including its line end, into the
// memory of line.
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

// checkRedacted checks that a line of a redacted file is exactly what Redact writes,
// so that the redacted trajectory hash determines every byte. The hash does not cover
// the time of the header; session compares that one.
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
			return invalid("redacted, and its header has other fields than a redacted file's")
		}
	}
	return nil
}

func redactedHeader(at Time) ([]byte, error) {
	return EncodeLine(&ReplayHeader{ReplayVersion: Version, Producer: redactedProducer, CreatedAt: at})
}

// Redact checks a file against the default limits and writes it without params and
// payload, whose hashes remain. The lines that the redacted trajectory hash covers
// determine every byte of the result, so the header names neither the producer nor the
// time of writing. A redacted file comes out unchanged.
//
// If Redact fails, discard what it has written to w.
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
		return writeRedacted(w, line, o)
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return fmt.Errorf("redact replay: %w", err)
	}
	return nil
}

// writeRedacted writes one line. It holds the header back until SessionStart, whose
// time the new header takes.
func writeRedacted(w io.Writer, line Line, o *object) error {
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

	_, err := w.Write(append(bytes.Clone(o.doc.Without(redactableFields...)), '\n'))
	return err
}
