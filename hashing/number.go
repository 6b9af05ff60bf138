package hashing

import (
	"bytes"
	"math"
	"strconv"
)

const (
	// maxNumber bounds the text of one number. The longest exact decimal form of
	// any double is shorter.
	maxNumber = 1100

	// maxInteger is 2^53-1: beyond it, neighbouring integers share a double.
	maxInteger = 1<<53 - 1

	// integerForm is where RFC 8785 begins to write integers with an exponent.
	integerForm = 1e21

	// safeDigits is the length up to which every integer is below maxInteger, so
	// that its text is canonical.
	safeDigits = 15
)

// number reads the number at the next unread byte and writes it.
func (e *engine) number() error {
	s := &e.src
	n, integer, err := s.numberLen()
	if err != nil {
		return err
	}
	off := s.offset()
	token := s.buf[s.pos : s.pos+n]
	s.pos += n
	if e.form == formLegacy {
		e.out, err = appendLegacyNumber(e.out, token, integer)
	} else {
		e.out, err = appendNumber(e.out, token, integer)
	}

	if serr, ok := err.(*SyntaxError); ok {
		serr.Offset = off
	}
	return err
}

// numberLen measures the number at the next unread byte by the grammar of
// RFC 8259 section 6. integer is true when it has neither fraction nor exponent.
func (s *source) numberLen() (n int, integer bool, err error) {
	// peek returns the n-th unread byte, 0 at the end of the document.
	peek := func() byte {
		if !s.ahead(n + 1) {
			return 0
		}
		return s.buf[s.pos+n]
	}
	digits := func() bool {
		from := n
		for c := peek(); '0' <= c && c <= '9' && n <= maxNumber; c = peek() {
			n++
		}
		return n > from
	}
	bad := func() (int, bool, error) {
		r := ReasonCharacter
		if !s.ahead(n + 1) {
			r = ReasonEnd
		}
		return 0, false, &SyntaxError{Offset: s.offset() + int64(n), Reason: r}
	}

	if peek() == '-' {
		n++
	}
	if peek() == '0' {
		n++
	} else if !digits() {
		return bad()
	}

	integer = true
	if peek() == '.' {
		n++
		integer = false
		if !digits() {
			return bad()
		}
	}

	if c := peek(); c == 'e' || c == 'E' {
		n++
		integer = false
		if c := peek(); c == '+' || c == '-' {
			n++
		}
		if !digits() {
			return bad()
		}
	}

	if n > maxNumber {
		return 0, false, s.fail(ReasonNumberLength)
	}
	return n, integer, nil
}

// appendNumber appends a number in its RFC 8785 form. It refuses a number whose form
// would be an integer beyond 2^53-1, however it is spelled, because a reader could
// not tell it from its neighbours. Numbers from 10^21 up have an exponent in that
// form, so they are floats and pass.
func appendNumber(dst, token []byte, integer bool) ([]byte, error) {
	if integer && len(token) <= safeDigits && token[0] != '-' {
		return append(dst, token...), nil
	}
	v, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return dst, &SyntaxError{Reason: ReasonRange}
	}
	if a := math.Abs(v); a > maxInteger && (integer || a < integerForm) {
		return dst, &SyntaxError{Reason: ReasonInteger}
	}
	return appendFloat(dst, v), nil
}

// appendFloat appends a finite double as ECMAScript's Number::toString does
// (RFC 8785 section 3.2.2.3).
func appendFloat(dst []byte, v float64) []byte {
	a := math.Abs(v)
	switch {
	case v == 0:
		return append(dst, '0') // also -0
	case a >= 1e-6 && a < integerForm:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}

	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)

	// Go pads the exponent to two digits: 1e-07 is 1e-7 there.
	if at := from + bytes.IndexByte(dst[from:], 'e') + 2; dst[at] == '0' {
		dst = append(dst[:at], dst[at+1:]...)
	}
	return dst
}
