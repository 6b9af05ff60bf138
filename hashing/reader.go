package hashing

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// A Reader reads a document of one exact form: members in a fixed order, no white
// space, strings and integers in canonical spelling. It does in one pass what would
// otherwise take the strict check, decoding, and encoding again to compare.
//
// At the first deviation the Reader fails: from then on every method returns a zero
// value and Done is false. To learn what is wrong, use [Unmarshal]. The caller
// chooses the order of names; the Reader does not check that it is canonical.
type Reader struct {
	whole   string // the document; strings without escapes are slices of it
	rest    []byte
	inside  bool // an object or array, after its first element: a comma must follow
	failed  bool
	scratch []byte // for strings with escapes
}

// NewReader returns a Reader of doc. The strings that it reads share one copy of
// doc.
func NewReader(doc []byte) *Reader { return &Reader{whole: string(doc), rest: doc} }

// Done reports whether the whole document was read without a deviation.
func (r *Reader) Done() bool { return !r.failed && len(r.rest) == 0 }

// Unread returns the bytes that were not read yet, and none after a deviation.
func (r *Reader) Unread() []byte { return r.rest }

func (r *Reader) fail() {
	r.failed, r.rest = true, nil
}

// Take consumes the text if it comes next. It reports whether it did.
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

// Close consumes the bracket or brace that ends an array or object.
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

// Name consumes the name of the next member. The name must need no escapes.
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
	return r.escapedText(run)
}

// OptionalText reads a string or null.
func (r *Reader) OptionalText() *string {
	if r.Take("null") {
		return nil
	}
	text := r.Text()
	return &text
}

// escapedText reads a string with escapes. The quote is consumed, and run bytes of
// plain text follow.
func (r *Reader) escapedText(run int) string {
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
		text = append(text, r.escape())
		run = plainRun(r.rest)
	}

	r.scratch = text
	return string(text)
}

// escape reads the escape of one character in the spelling that appendRune writes.
func (r *Reader) escape() byte {
	if len(r.rest) < 2 || r.rest[0] != '\\' {
		r.fail()
		return 0
	}
	if c := r.rest[1]; c == '"' || c == '\\' { // the frequent case: JSON within a string
		r.rest = r.rest[2:]
		return c
	}

	c := rune(escapes[r.rest[1]])
	if r.rest[1] == 'u' {
		s := source{buf: r.rest}
		c, _ = s.unit(0)
	}

	var buf [6]byte
	spelling := appendRune(buf[:0], c)
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

// Integer reads an integer between -(2^53-1) and 2^53-1.
func (r *Reader) Integer() int64 {
	end := 0
	for end < len(r.rest) && end <= len("-9007199254740991") && (r.rest[end] == '-' || '0' <= r.rest[end] && r.rest[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(string(r.rest[:end]), 10, 64)
	var buf [20]byte
	if err != nil || n > maxInteger || n < -maxInteger || !bytes.Equal(strconv.AppendInt(buf[:0], n, 10), r.rest[:end]) {
		r.fail()
		return 0
	}
	r.rest = r.rest[end:]
	return n
}

// Int reads an integer that fits an int.
func (r *Reader) Int() int {
	n := r.Integer()
	if int64(int(n)) != n {
		r.fail()
	}
	return int(n)
}
