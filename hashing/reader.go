package hashing

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// A Reader reads a document whose form is known to the byte: members in one
// order, no white space, and strings and integers as canonical text writes
// them. That is one pass for what is otherwise the strict check, decoding, and
// encoding again to compare.
//
// The first thing that is otherwise ends the reading: from then on every method
// returns a zero value, and Done is false. What is wrong a Reader does not say;
// [Unmarshal] does. It says nothing of the order of names either, which is the
// caller's.
type Reader struct {
	whole   string // of which strings without escapes are parts
	rest    []byte
	inside  bool // of an object or array, behind its first element
	failed  bool
	scratch []byte // for strings with escapes
}

// NewReader reads doc. What it returns shares one copy of it.
func NewReader(doc []byte) *Reader { return &Reader{whole: string(doc), rest: doc} }

// Done reports that everything was read as it was expected, to the end.
func (r *Reader) Done() bool { return !r.failed && len(r.rest) == 0 }

// Unread is what was not read yet; nothing behind what is not as expected.
func (r *Reader) Unread() []byte { return r.rest }

func (r *Reader) fail() {
	r.failed, r.rest = true, nil
}

// Take consumes the text if it comes next, and reports whether it did.
func (r *Reader) Take(text string) bool {
	if len(r.rest) < len(text) || string(r.rest[:len(text)]) != text {
		return false
	}
	r.rest = r.rest[len(text):]
	return true
}

func (r *Reader) expect(text string) {
	if !r.Take(text) {
		r.fail()
	}
}

// Open consumes the bracket or brace that begins an array or object.
func (r *Reader) Open(bracket string) {
	r.expect(bracket)
	r.inside = false
}

// Close consumes the one that ends it.
func (r *Reader) Close(bracket string) {
	r.expect(bracket)
	r.inside = true
}

// More reports whether the array goes on, and consumes the comma. The closing
// bracket is left to Close.
func (r *Reader) More() bool {
	if r.failed || len(r.rest) == 0 || r.rest[0] == ']' {
		return false
	}
	r.comma()
	return !r.failed
}

func (r *Reader) comma() {
	if r.inside {
		r.expect(",")
	}
	r.inside = true
}

// Name consumes the next member's name, which has no character to escape.
func (r *Reader) Name(name string) {
	r.comma()
	r.expect(`"`)
	r.expect(name)
	r.expect(`":`)
}

// Text reads a string.
func (r *Reader) Text() string {
	r.expect(`"`)
	run, at := plainRun(r.rest), len(r.whole)-len(r.rest)
	if run < len(r.rest) && r.rest[run] == '"' {
		r.rest = r.rest[run+1:]
		return r.whole[at : at+run]
	}
	return r.unescaped(run)
}

// OptionalText reads a string or null.
func (r *Reader) OptionalText() *string {
	if r.Take("null") {
		return nil
	}
	text := r.Text()
	return &text
}

// unescaped reads a string with escapes, behind its quote and a run of plain text.
func (r *Reader) unescaped(run int) string {
	if r.scratch == nil {
		r.scratch = make([]byte, 0, len(r.rest))
	}

	text := r.scratch[:0]
	for !r.failed {
		text = append(text, r.rest[:run]...)
		r.rest = r.rest[run:]
		if r.Take(`"`) {
			break
		}
		text = append(text, r.escaped())
		run = plainRun(r.rest)
	}

	r.scratch = text
	return string(text)
}

// escaped reads the escape of one character in the one spelling that
// appendRune gives it.
func (r *Reader) escaped() byte {
	if len(r.rest) < 2 || r.rest[0] != '\\' {
		r.fail()
		return 0
	}
	if c := r.rest[1]; c == '"' || c == '\\' { // as in a document within a document
		r.rest = r.rest[2:]
		return c
	}

	c := rune(escapes[r.rest[1]])
	if r.rest[1] == 'u' {
		s := source{buf: r.rest}
		c, _ = s.unit(0)
	}

	var room [6]byte
	spelling := appendRune(room[:0], c)
	if c >= utf8.RuneSelf || !bytes.HasPrefix(r.rest, spelling) {
		r.fail()
		return 0
	}
	r.rest = r.rest[len(spelling):]
	return byte(c)
}

// Digest reads "sha256:<hex>".
func (r *Reader) Digest() Digest {
	r.expect(`"` + digestPrefix)
	const length = 2 * len(Digest{})
	if len(r.rest) < length {
		r.fail()
		return Digest{}
	}
	d, err := parseHex(r.rest[:length])
	if err != nil {
		r.fail()
		return Digest{}
	}
	r.rest = r.rest[length:]
	r.expect(`"`)
	return d
}

// OptionalDigest reads a digest or null.
func (r *Reader) OptionalDigest() *Digest {
	if r.Take("null") {
		return nil
	}
	d := r.Digest()
	return &d
}

// Integer reads an integer of at most 2^53-1, either way.
func (r *Reader) Integer() int64 {
	end := 0
	for end < len(r.rest) && end <= len("-9007199254740991") && (r.rest[end] == '-' || '0' <= r.rest[end] && r.rest[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(string(r.rest[:end]), 10, 64)
	var again [20]byte
	if err != nil || n > maxInteger || n < -maxInteger || !bytes.Equal(strconv.AppendInt(again[:0], n, 10), r.rest[:end]) {
		r.fail()
		return 0
	}
	r.rest = r.rest[end:]
	return n
}

// Int reads an integer that an int holds.
func (r *Reader) Int() int {
	n := r.Integer()
	if int64(int(n)) != n {
		r.fail()
	}
	return int(n)
}
