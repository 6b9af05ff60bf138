package hashing

import (
	"fmt"
	"io"
)

// windowSize is how much of a streamed document is in memory besides what
// open objects force us to keep.
const windowSize = 64 << 10

// source is a window on the document. With a nil reader the window is the
// whole document.
type source struct {
	buf  []byte
	pos  int       // next unread byte of buf
	base int64     // document offset of buf[0]
	r    io.Reader // nil once it ended
	left int64     // bytes that may still be read
	err  error     // why the reader ended, other than io.EOF
}

func bytesSource(doc []byte) source { return source{buf: doc} }

func readerSource(r io.Reader, limit int64) source {
	return source{buf: make([]byte, 0, windowSize), r: r, left: limit}
}

// offset is the document offset of the next unread byte.
func (s *source) offset() int64 { return s.base + int64(s.pos) }

// more reads at least one byte behind the unread ones, which move to the
// front of the window. It reports false at the end of the document, on an
// error (kept in err) and when the window is full of unread bytes.
func (s *source) more() bool {
	if s.r == nil {
		return false
	}
	s.base += int64(s.pos)
	s.buf = s.buf[:copy(s.buf, s.buf[s.pos:])]
	s.pos = 0
	free := s.buf[len(s.buf):cap(s.buf)]
	// One byte beyond the limit is read to tell "at the limit" from "over".
	if int64(len(free)) > s.left+1 {
		free = free[:s.left+1]
	}
	if len(free) == 0 {
		return false
	}
	n, err := io.ReadAtLeast(s.r, free, 1)
	if err != nil {
		s.r = nil
		if err != io.EOF {
			s.err = fmt.Errorf("read document: %w", err)
		}
		return false
	}
	if s.left -= int64(n); s.left < 0 {
		s.r, s.err = nil, ErrTooLarge
		return false
	}
	s.buf = s.buf[:len(s.buf)+n]
	return true
}

// ensure makes n bytes unread in the window; n is small.
func (s *source) ensure(n int) bool {
	for len(s.buf)-s.pos < n {
		if !s.more() {
			return false
		}
	}
	return true
}

// token skips white space and returns the next byte without consuming it;
// ok is false at the end of the document.
func (s *source) token() (c byte, ok bool) {
	for {
		for s.pos < len(s.buf) {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\n', '\r':
				s.pos++
			default:
				return c, true
			}
		}
		if !s.more() {
			return 0, false
		}
	}
}

// fail refuses the document at the next unread byte.
func (s *source) fail(r Reason) error { return s.failAt(s.offset(), r) }

// failAt refuses the document at off. An error of the reader, or the limit,
// explains an unexpected end better than the syntax does.
func (s *source) failAt(off int64, r Reason) error {
	if s.err != nil {
		return s.err
	}
	return &SyntaxError{Offset: off, Reason: r}
}
