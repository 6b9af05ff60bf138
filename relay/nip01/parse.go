package nip01

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"
)

// Limits bounds the parts of a document. Zero means the default given at each
// field.
type Limits struct {
	MaxTags         int // tags of an event; 2000
	MaxFilters      int // filters of a REQ; 200
	MaxFilterValues int // values of one list of a filter; 2000
	MaxSubID        int // bytes of a subscription id; 64
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.MaxTags, 2000)
	set(&l.MaxFilters, 200)
	set(&l.MaxFilterValues, 2000)
	set(&l.MaxSubID, 64)
	return l
}

// maxDepth bounds nesting. The protocol needs four levels; the rest is room for
// unknown fields of an event, which are skipped.
const maxDepth = 8

// parser parses one document. The decoder refuses duplicate names and invalid
// UTF-8.
type parser struct {
	dec *jsontext.Decoder
	lim Limits
}

func newParser(doc []byte, lim Limits) (*parser, error) {
	if err := checkDepth(doc); err != nil {
		return nil, err
	}
	return &parser{jsontext.NewDecoder(bytes.NewBuffer(doc)), lim.withDefaults()}, nil
}

// checkDepth runs before the decoder; it takes one pass and no memory.
func checkDepth(doc []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return ErrDepth
			}
		case c == ']' || c == '}':
			depth--
		}
	}

	return nil
}

// token reads one token of the wanted kind.
func (p *parser) token(kind jsontext.Kind) (jsontext.Token, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return tok, ErrSyntax // the decoder's own text quotes the document
	}
	if tok.Kind() != kind {
		return tok, ErrShape
	}
	return tok, nil
}

func (p *parser) open(kind jsontext.Kind) error {
	_, err := p.token(kind)
	return err
}

// more reports whether the open array or object has another element.
func (p *parser) more(end jsontext.Kind) bool {
	k := p.dec.PeekKind()
	return k != end && k != 0
}

func (p *parser) string() (string, error) {
	tok, err := p.token('"')
	if err != nil {
		return "", err
	}
	return tok.String(), nil
}

func (p *parser) hex(n int) (string, error) {
	s, err := p.string()
	if err == nil && !isHex(s, n) {
		err = ErrShape
	}
	return s, err
}

// integer reads 0..limit, written without fraction or exponent.
func (p *parser) integer(limit int64) (int64, error) {
	tok, err := p.token('0')
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(tok.String(), 10, 64)
	if err != nil || v < 0 || v > limit {
		return 0, ErrShape
	}
	return v, nil
}

// subID reads a subscription id: "an arbitrary, non-empty string of max length 64
// chars". A longer one is returned with the error, because the refusal must contain
// all of it.
func (p *parser) subID() (string, error) {
	s, err := p.string()
	if err == nil && (s == "" || len(s) > p.lim.MaxSubID) {
		err = fmt.Errorf("%w: a subscription id has 1 to %d bytes", ErrShape, p.lim.MaxSubID)
	}
	return s, err
}

// end closes the outermost array and refuses trailing text.
func (p *parser) end() error {
	if err := p.open(']'); err != nil {
		return err
	}
	return p.eof()
}

func (p *parser) eof() error {
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return ErrSyntax
	}
	return nil
}

// ParseEvent parses one event object without verifying it.
func ParseEvent(doc []byte, lim Limits) (nostr.Event, error) {
	p, err := newParser(doc, lim)
	if err != nil {
		return nostr.Event{}, err
	}
	ev, err := p.event()
	if err != nil {
		return nostr.Event{}, err
	}
	return ev, p.eof()
}

// event reads the seven fields. Other fields are skipped: the id does not cover
// them, and they are not passed on.
func (p *parser) event() (ev nostr.Event, err error) {
	if err := p.open('{'); err != nil {
		return ev, err
	}

	var seen int
	for p.more('}') {
		name, err := p.string()
		if err != nil {
			return ev, err
		}
		isField, err := p.eventField(&ev, name)
		if err != nil {
			return ev, err
		}
		if isField {
			seen++ // the decoder refuses duplicate names
		}
	}

	if err := p.open('}'); err != nil {
		return ev, err
	}
	if seen != 7 {
		return ev, ErrShape
	}

	return ev, nil
}

func (p *parser) eventField(ev *nostr.Event, name string) (isField bool, err error) {
	var n int64
	switch name {
	case "id":
		ev.ID, err = p.hex(64)
	case "pubkey":
		ev.PubKey, err = p.hex(64)
	case "created_at":
		n, err = p.integer(maxTime)
		ev.CreatedAt = nostr.Timestamp(n)
	case "kind":
		n, err = p.integer(maxKind)
		ev.Kind = int(n)
	case "tags":
		ev.Tags, err = p.tags()
	case "content":
		ev.Content, err = p.string()
	case "sig":
		ev.Sig, err = p.hex(128)
	default:
		return false, p.skip()
	}

	return true, err
}

func (p *parser) skip() error {
	if err := p.dec.SkipValue(); err != nil {
		return ErrSyntax
	}
	return nil
}

func (p *parser) tags() (nostr.Tags, error) {
	if err := p.open('['); err != nil {
		return nil, err
	}

	tags := nostr.Tags{}
	for p.more(']') {
		if len(tags) == p.lim.MaxTags {
			return nil, fmt.Errorf("%w: an event has at most %d tags", ErrTooMany, p.lim.MaxTags)
		}
		tag, err := p.strings(math.MaxInt)
		if err != nil {
			return nil, err
		}
		if len(tag) == 0 { // "each tag is an array of one or more strings"
			return nil, ErrShape
		}
		tags = append(tags, tag)
	}

	return tags, p.open(']')
}

func tooManyValues(limit int) error {
	return fmt.Errorf("%w: a list of a filter has at most %d values", ErrTooMany, limit)
}

func (p *parser) strings(limit int) ([]string, error) {
	if err := p.open('['); err != nil {
		return nil, err
	}

	list := []string{}
	for p.more(']') {
		if len(list) == limit {
			return nil, tooManyValues(limit)
		}
		s, err := p.string()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}

	return list, p.open(']')
}
