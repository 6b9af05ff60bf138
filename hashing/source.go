package hashing

// source is a document and the position of the reader in it.
type source struct {
	buf []byte
	pos int // next unread byte of buf
}

// ahead reports whether n bytes are unread.
func (s *source) ahead(n int) bool { return len(s.buf)-s.pos >= n }

// offset is the document offset of the next unread byte.
func (s *source) offset() int64 { return int64(s.pos) }

// token skips white space and returns the next byte without consuming it;
// ok is false at the end of the document.
func (s *source) token() (c byte, ok bool) {
	for s.pos < len(s.buf) {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c, true
		}
	}
	return 0, false
}

// fail refuses the document at the next unread byte.
func (s *source) fail(r Reason) error { return &SyntaxError{Offset: s.offset(), Reason: r} }
