package hashing

import (
	"bytes"
	"slices"
)

// MaxDepth bounds the nesting of arrays and objects. It bounds the stack, and the
// work on unsorted keys, which copies the text once for each level.
const MaxDepth = 128

// form selects between RFC 8785 and the legacy form. They differ only in the
// spelling of numbers and the order of keys.
type form uint8

const (
	formRFC8785 form = iota
	formLegacy
)

// engine turns a document into canonical text in one pass. It appends each value to
// out, and sorts the members of an object there when the object closes.
type engine struct {
	src     source
	form    form
	out     []byte   // canonical text
	keys    []byte   // decoded keys of the open objects
	members []member // members of the open objects
	scratch []byte   // for reordering
	depth   int      // open arrays and objects

	outermost []member // of the object that is the document; keys stay in place
}

// Capacities that suffice for a usual document, so that its buffers never grow.
const (
	usualKeys    = 512
	usualMembers = 16
)

// newEngine allocates the buffers for a document of this size.
func newEngine(doc []byte) engine {
	return engine{
		src: source{buf: doc}, out: make([]byte, 0, len(doc)),
		keys: make([]byte, 0, min(usualKeys, len(doc))), members: make([]member, 0, min(usualMembers, len(doc)/4)),
	}
}

// reset starts another document in the same buffers.
func (e *engine) reset(doc []byte) {
	e.src, e.depth = source{buf: doc}, 0
	e.out, e.keys, e.members = e.out[:0], e.keys[:0], e.members[:0]
}

// member is one name and value of an open object.
type member struct {
	start, value, end int   // in out: name, value, end; the comma is not included
	keyStart, keyEnd  int   // its decoded key in keys
	offset            int64 // of the key in the document
	from, to          int64 // its value in the document
}

// document reads one value and the white space around it, to the end of the document.
func (e *engine) document() error {
	if err := e.value(); err != nil {
		return err
	}
	if _, more := e.src.token(); more {
		return e.src.fail(ReasonTrailing)
	}
	return nil
}

func (e *engine) value() error {
	c, ok := e.src.token()
	if !ok {
		return e.src.fail(ReasonEnd)
	}

	switch c {
	case '{':
		return e.object()
	case '[':
		return e.array()
	case '"':
		return e.stringValue()
	case 't':
		return e.literal("true")
	case 'f':
		return e.literal("false")
	case 'n':
		return e.literal("null")
	default:
		return e.number()
	}
}

func (e *engine) literal(word string) error {
	if !e.src.ahead(len(word)) || string(e.src.buf[e.src.pos:e.src.pos+len(word)]) != word {
		return e.src.fail(ReasonCharacter)
	}
	e.src.pos += len(word)
	e.out = append(e.out, word...)
	return nil
}

// open consumes a bracket and counts it against MaxDepth.
func (e *engine) open(bracket byte) error {
	if e.depth++; e.depth > MaxDepth {
		return e.src.fail(ReasonDepth)
	}
	e.src.pos++
	e.out = append(e.out, bracket)
	return nil
}

// next consumes the separator before an element, or the closing bracket, and
// reports whether an element follows.
func (e *engine) next(closing byte, first bool) (bool, error) {
	c, ok := e.src.token()
	switch {
	case !ok:
		return false, e.src.fail(ReasonEnd)
	case c == closing:
		e.src.pos++
		e.depth--
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, e.src.fail(ReasonCharacter)
	}

	e.src.pos++
	e.out = append(e.out, ',')
	return true, nil
}

func (e *engine) array() error {
	if err := e.open('['); err != nil {
		return err
	}

	for first := true; ; first = false {
		more, err := e.next(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := e.value(); err != nil {
			return err
		}
	}

	e.out = append(e.out, ']')
	return nil
}

func (e *engine) object() error {
	if err := e.open('{'); err != nil {
		return err
	}
	firstMember, firstKey, start := len(e.members), len(e.keys), len(e.out)

	sorted := true
	for first := true; ; first = false {
		more, err := e.next('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}

		m, err := e.key()
		if err != nil {
			return err
		}
		if !first {
			prev := e.members[len(e.members)-1]
			switch c := e.compare(prev, m); {
			case c == 0:
				return duplicateKey(m.offset, e.keys[m.keyStart:m.keyEnd])
			case c > 0:
				sorted = false
			}
		}

		if err := e.value(); err != nil {
			return err
		}
		m.end, m.to = len(e.out), e.src.offset()
		e.members = append(e.members, m)
	}

	if !sorted {
		if err := e.sortMembers(e.members[firstMember:], start); err != nil {
			return err
		}
	}

	if e.depth == 0 {
		e.outermost = e.members[firstMember:]
	}
	e.members, e.keys = e.members[:firstMember], e.keys[:firstKey]
	e.out = append(e.out, '}')
	return nil
}

// key reads and writes a name and its colon.
func (e *engine) key() (member, error) {
	m := member{start: len(e.out), keyStart: len(e.keys)}
	c, ok := e.src.token()
	if !ok {
		return m, e.src.fail(ReasonEnd)
	}
	if c != '"' {
		return m, e.src.fail(ReasonCharacter)
	}

	m.offset = e.src.offset()
	e.src.pos++
	if err := e.text(&e.keys, false); err != nil {
		return m, err
	}
	m.keyEnd = len(e.keys)
	if c, ok = e.src.token(); !ok {
		return m, e.src.fail(ReasonEnd)
	}
	if c != ':' {
		return m, e.src.fail(ReasonCharacter)
	}

	e.src.pos++
	e.out = appendQuoted(e.out, e.keys[m.keyStart:m.keyEnd])
	e.out = append(e.out, ':')
	e.src.token() // skip white space, which is no part of the value
	m.value, m.from = len(e.out), e.src.offset()
	return m, nil
}

// sortMembers sorts the members by key. Their text is all of out from start on.
func (e *engine) sortMembers(ms []member, start int) error {
	slices.SortFunc(ms, e.compare)
	e.scratch = slices.Grow(e.scratch[:0], len(e.out)-start)

	for i, m := range ms {
		if i > 0 {
			if e.compare(ms[i-1], m) == 0 {
				off := max(ms[i-1].offset, m.offset)
				return duplicateKey(off, e.keys[m.keyStart:m.keyEnd])
			}
			e.scratch = append(e.scratch, ',')
		}
		at := start + len(e.scratch)
		e.scratch = append(e.scratch, e.out[m.start:m.end]...)
		ms[i].start, ms[i].value, ms[i].end = at, at+m.value-m.start, at+m.end-m.start
	}

	copy(e.out[start:], e.scratch)
	return nil
}

func (e *engine) compare(a, b member) int {
	ka, kb := e.keys[a.keyStart:a.keyEnd], e.keys[b.keyStart:b.keyEnd]
	if e.form == formLegacy {
		return bytes.Compare(ka, kb)
	}
	return compareUTF16(ka, kb)
}

// compareUTF16 orders valid UTF-8 texts by their UTF-16 code units (RFC 8785
// section 3.2.3). That is byte order, except that characters above U+FFFF
// (lead bytes F0 and up) are surrogates and so come before U+E000 to U+FFFF
// (lead bytes EE and EF).
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}
