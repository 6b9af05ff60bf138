// Package frame turns a byte stream into messages and back.
//
// A frame is a 4-byte unsigned big-endian length and that many bytes of one
// UTF-8 JSON object (OS-2.1.1). The package checks the length, the encoding
// and that the payload is an object; the syntax inside is the decoder's work.
package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// HeaderBytes is the size of the length in front of every payload.
	HeaderBytes = 4
	// DefaultMaxBytes is max_frame_bytes where nothing else is configured.
	// It counts payload bytes, not the header (OS-2.2.1).
	DefaultMaxBytes = 4 << 20

	// window is how much of a frame is read ahead, and how much a header that
	// announces a large body can make the reader allocate at once.
	window = 32 << 10
	// keepBytes is the largest body buffer kept from one frame to the next.
	keepBytes = 256 << 10
)

var (
	// ErrTooLarge is what a *SizeError matches.
	ErrTooLarge = errors.New("frame: larger than the limit")
	// ErrEmpty means a length of zero: no JSON object is that short.
	ErrEmpty = errors.New("frame: empty payload")
	// ErrNotUTF8 means the payload is not valid UTF-8.
	ErrNotUTF8 = errors.New("frame: payload is not UTF-8")
	// ErrNotObject means the payload is not a JSON object.
	ErrNotObject = errors.New("frame: payload is not a JSON object")
)

// SizeError tells the announced size of a frame and the limit it broke, both
// in payload bytes. It holds no byte of the payload, so it may be audited.
type SizeError struct {
	Size  int64
	Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("frame: %d bytes, the limit is %d", e.Size, e.Limit)
}

// Is makes errors.Is(err, ErrTooLarge) true.
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	src   *bufio.Reader
	limit int
	buf   []byte
	held  int // bytes of src that the last payload still occupies
	large int // size of a payload whose beginning is in buf, 0 for none
}

// NewReader reads frames of at most limit payload bytes from src; limit 0
// means DefaultMaxBytes.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: bufio.NewReaderSize(src, window), limit: orDefault(limit)}
}

// SetLimit changes the limit from the next frame on; 0 means DefaultMaxBytes.
func (r *Reader) SetLimit(limit int) { r.limit = orDefault(limit) }

// Next returns the payload of the next frame. The slice is valid until the
// next call. After os.ErrDeadlineExceeded it may be called again and goes on
// where it stopped. After any other error the caller closes the stream: io.EOF for an end between two frames, io.ErrUnexpectedEOF for one inside,
// *SizeError (the body is not read), ErrEmpty, ErrNotUTF8, ErrNotObject.
func (r *Reader) Next() ([]byte, error) {
	size := r.large
	if size == 0 {
		r.release()
		var err error
		if size, err = r.header(); err != nil {
			return nil, err
		}
	}

	payload, err := r.body(size)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, wrapRead("body", err)
	}
	if err := Check(payload); err != nil {
		return nil, err
	}

	return payload, nil
}

// header returns the size of the next payload.
func (r *Reader) header() (int, error) {
	head, err := r.src.Peek(HeaderBytes)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, wrapRead("header", err)
	}
	size := int64(binary.BigEndian.Uint32(head))
	return int(size), checkSize(size, r.limit)
}

// Buffered reports whether bytes of a further frame have been read.
func (r *Reader) Buffered() bool { return r.src.Buffered() > r.held }

// release gives back what the last payload used.
func (r *Reader) release() {
	// Discard cannot fail: these bytes are in the buffer already.
	_, _ = r.src.Discard(r.held)
	r.held = 0
	if cap(r.buf) > keepBytes {
		r.buf = nil
	}
}

// body returns size bytes. A small frame is handed out in place; a large one
// grows with the bytes that arrive, so a length alone allocates no memory.
func (r *Reader) body(size int) ([]byte, error) {
	if HeaderBytes+size <= window {
		p, err := r.src.Peek(HeaderBytes + size)
		if err != nil {
			return nil, err
		}
		r.held = len(p)
		return p[HeaderBytes:], nil
	}

	if r.large == 0 {
		if _, err := r.src.Discard(HeaderBytes); err != nil {
			return nil, err
		}
		r.buf, r.large = r.buf[:0], size
	}

	for len(r.buf) < size {
		from := len(r.buf)
		n := min(size-from, max(from, window))
		r.buf = append(r.buf, make([]byte, n)...)
		n, err := io.ReadFull(r.src, r.buf[from:])
		if r.buf = r.buf[:from+n]; err != nil {
			return nil, err
		}
	}

	r.large = 0
	return r.buf, nil
}

// Check reports whether payload is UTF-8 and looks like one JSON object.
func Check(payload []byte) error {
	if len(payload) == 0 {
		return ErrEmpty
	}
	if !utf8.Valid(payload) {
		return ErrNotUTF8
	}

	first, last := 0, len(payload)-1
	for first < last && isSpace(payload[first]) {
		first++
	}
	for last > first && isSpace(payload[last]) {
		last--
	}
	if first == last || payload[first] != '{' || payload[last] != '}' {
		return ErrNotObject
	}
	return nil
}

// Append adds payload as one frame to dst. It returns the errors that the
// other side's Next would return.
func Append(dst, payload []byte, limit int) ([]byte, error) {
	if err := checkSize(int64(len(payload)), orDefault(limit)); err != nil {
		return dst, err
	}
	if err := Check(payload); err != nil {
		return dst, err
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...), nil
}

// Seal writes the length into the first HeaderBytes of f, whose payload the
// encoder has put behind them. It saves the copy that Append makes.
func Seal(f []byte, limit int) error {
	if len(f) < HeaderBytes {
		return ErrEmpty
	}
	if err := checkSize(int64(len(f)-HeaderBytes), orDefault(limit)); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(f, uint32(len(f)-HeaderBytes))
	return nil
}

func checkSize(size int64, limit int) error {
	if size == 0 {
		return ErrEmpty
	}
	if size > int64(limit) {
		return &SizeError{Size: size, Limit: limit}
	}
	return nil
}

func orDefault(limit int) int {
	if limit <= 0 {
		return DefaultMaxBytes
	}
	return limit
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// wrapRead keeps io.EOF bare: it is the normal end, and callers compare it.
func wrapRead(part string, err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("read frame %s: %w", part, err)
}
