package hashing

import "bytes"

// canon recognises documents that are in canonical form already. Most documents
// that a node reads are, because a node wrote them. It copies, decodes and sorts
// nothing, so it takes a fraction of the engine's time. A document that it does not
// accept goes to the engine: it may be invalid, in another form, or canonical with a
// name that has an escape.
type canon struct {
	doc     []byte
	pos     int      // next unread byte
	depth   int      // open arrays and objects
	members []member // of the outermost object; their keys are in doc
	scratch []byte   // for numbers
}

// accepts reports whether doc is its own canonical form, and passes [Check].
func (c *canon) accepts(doc []byte) bool {
	c.doc, c.pos, c.depth, c.members = doc, 0, 0, c.members[:0]
	return c.value() && c.pos == len(doc)
}

// take consumes the byte if it comes next.
func (c *canon) take(b byte) bool {
	if c.pos == len(c.doc) || c.doc[c.pos] != b {
		return false
	}
	c.pos++
	return true
}

func (c *canon) value() bool {
	if c.pos == len(c.doc) {
		return false
	}

	switch c.doc[c.pos] {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		return c.text()
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}

	return c.number()
}

func (c *canon) literal(word string) bool {
	if !bytes.HasPrefix(c.doc[c.pos:], []byte(word)) {
		return false
	}
	c.pos += len(word)
	return true
}

func (c *canon) array() bool {
	if c.depth++; c.depth > MaxDepth {
		return false
	}
	c.pos++
	for first := true; !c.take(']'); first = false {
		if !first && !c.take(',') || !c.value() {
			return false
		}
	}
	c.depth--
	return true
}

func (c *canon) object() bool {
	if c.depth++; c.depth > MaxDepth {
		return false
	}
	c.pos++

	var last []byte // name
	for first := true; !c.take('}'); first = false {
		if !first && !c.take(',') {
			return false
		}
		m := member{start: c.pos, keyStart: c.pos + 1}
		if !c.take('"') {
			return false
		}
		c.pos += plainRun(c.doc[c.pos:])
		m.keyEnd = c.pos
		name := c.doc[m.keyStart:m.keyEnd]
		if !c.take('"') || !c.take(':') || !first && compareUTF16(last, name) >= 0 {
			return false
		}
		m.value = c.pos
		if !c.value() {
			return false
		}
		if c.depth == 1 {
			m.end, m.from, m.to = c.pos, int64(m.value), int64(c.pos)
			c.members = append(c.members, m)
		}

		last = name
	}

	c.depth--
	return true
}

func (c *canon) text() bool {
	c.pos++
	for {
		c.pos += plainRun(c.doc[c.pos:])
		switch {
		case c.take('"'):
			return true
		case !c.escape():
			return false
		}
	}
}

// escape consumes an escape in the spelling that appendRune writes.
func (c *canon) escape() bool {
	rest := c.doc[c.pos:]
	if len(rest) < 2 || rest[0] != '\\' {
		return false
	}
	if r := escapes[rest[1]]; r != 0 {
		c.pos += 2
		return r != '/'
	}
	if len(rest) < 6 || string(rest[1:4]) != "u00" {
		return false
	}

	high, low := bytes.IndexByte([]byte("01"), rest[4]), bytes.IndexByte([]byte(hexDigits), rest[5])
	if high < 0 || low < 0 || short[high<<4|low] != 0 {
		return false
	}
	c.pos += 6
	return true
}

// number consumes a number. A short integer is canonical by its form; any other
// number is written anew and compared.
func (c *canon) number() bool {
	from, at := c.pos, c.pos
	if c.doc[at] == '-' {
		at++
	}
	digits := at
	for at < len(c.doc) && '0' <= c.doc[at] && c.doc[at] <= '9' {
		at++
	}
	if n := at - digits; n == 0 || c.doc[digits] == '0' && n > 1 {
		return false
	} else if n <= safeDigits && (at == len(c.doc) || bytes.IndexByte([]byte(".eE"), c.doc[at]) < 0) {
		c.pos = at
		return c.doc[digits] != '0' || digits == from // the canonical form of -0 is 0
	}

	for at < len(c.doc) && inNumber(c.doc[at]) && at-from <= maxNumber {
		at++
	}
	token := c.doc[from:at]
	c.pos = at
	var err error
	c.scratch, err = appendNumber(c.scratch[:0], token, !bytes.ContainsAny(token, ".eE"))
	return err == nil && bytes.Equal(c.scratch, token)
}

func inNumber(b byte) bool {
	return '0' <= b && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}
