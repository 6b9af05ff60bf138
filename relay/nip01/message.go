package nip01

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/clip"
)

// The labels of messages.
const (
	LabelEvent  = "EVENT"
	LabelReq    = "REQ"
	LabelClose  = "CLOSE"
	LabelOK     = "OK"
	LabelEOSE   = "EOSE"
	LabelClosed = "CLOSED"
	LabelNotice = "NOTICE"
	LabelAuth   = "AUTH"
	LabelCount  = "COUNT"

	// Labels of NIP-77, which is not supported: two of a client, and the refusal.
	LabelNegOpen    = "NEG-OPEN"
	LabelNegMessage = "NEG-MSG"
	LabelNegError   = "NEG-ERR"
)

// maxText bounds a human-readable message, in bytes.
const maxText = 1024

// ClientMessage is a message of a client: EVENT and AUTH fill Event, REQ and COUNT
// fill SubID and Filters, CLOSE fills SubID.
type ClientMessage struct {
	Label   string
	Event   nostr.Event
	SubID   string
	Filters []nostr.Filter
}

// ParseClient parses a message of a client. With an error it still returns what
// could be read and an answer needs: the label, and the id of the event or of the
// subscription, whose length is then not bounded. Therefore it may be called with
// the beginning of a message that is too long to be read completely.
func ParseClient(doc []byte, lim Limits) (ClientMessage, error) {
	var m ClientMessage
	p, err := newParser(doc, lim)
	if err != nil {
		return m, err
	}
	if err := p.open('['); err != nil {
		return m, err
	}
	if m.Label, err = p.string(); err != nil {
		return m, err
	}

	switch m.Label {
	case LabelEvent, LabelAuth:
		if m.Event, err = p.event(); err != nil {
			m.Event = nostr.Event{ID: eventID(doc)}
		}
	case LabelReq, LabelCount:
		if m.SubID, err = p.subID(); err == nil {
			m.Filters, err = p.filters()
		}
	case LabelClose:
		m.SubID, err = p.subID()
	case LabelNegOpen, LabelNegMessage:
		if m.SubID, err = p.subID(); err == nil {
			err = ErrUnsupported
		}
		return m, err
	default:
		m.Label = ""
		return m, ErrUnsupported
	}

	if err == nil {
		err = p.end()
	}
	return m, err
}

// eventID searches for the id of an event that did not parse, so that the refusal
// can name it; "" if there is none.
func eventID(doc []byte) string {
	p, err := newParser(doc, Limits{})
	if err != nil || p.open('[') != nil || p.skip() != nil || p.open('{') != nil {
		return ""
	}

	for p.more('}') {
		name, err := p.string()
		if err != nil {
			return ""
		}
		if name == "id" {
			id, err := p.hex(64)
			if err != nil {
				return ""
			}
			return id
		}

		if p.skip() != nil {
			return ""
		}
	}

	return ""
}

func (p *parser) filters() ([]nostr.Filter, error) {
	var list []nostr.Filter
	for p.more(']') {
		if len(list) == p.lim.MaxFilters {
			return nil, fmt.Errorf("%w: a request has at most %d filters", ErrTooMany, p.lim.MaxFilters)
		}
		f, err := p.filter()
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}

	if len(list) == 0 {
		return nil, ErrShape
	}
	return list, nil
}

// RelayMessage is a message of a relay: EVENT fills SubID and Event, OK fills
// EventID, Accepted and Text, EOSE fills SubID, CLOSED fills SubID and Text, NOTICE
// and AUTH fill Text. Text is shortened and has no control characters.
type RelayMessage struct {
	Label    string
	SubID    string
	Event    nostr.Event
	EventID  string
	Accepted bool
	Text     string
}

// ParseRelay parses a message of a relay.
func ParseRelay(doc []byte, lim Limits) (RelayMessage, error) {
	var m RelayMessage
	p, err := newParser(doc, lim)
	if err != nil {
		return m, err
	}
	if err := p.open('['); err != nil {
		return m, err
	}
	if m.Label, err = p.string(); err != nil {
		return m, err
	}
	if err := p.relayBody(&m); err != nil {
		return RelayMessage{}, err
	}
	if err := p.end(); err != nil {
		return RelayMessage{}, err
	}

	return m, nil
}

func (p *parser) relayBody(m *RelayMessage) (err error) {
	switch m.Label {
	case LabelEvent:
		if m.SubID, err = p.subID(); err == nil {
			m.Event, err = p.event()
		}
	case LabelOK:
		if m.EventID, err = p.hex(64); err != nil {
			return err
		}
		if m.Accepted, err = p.boolean(); err == nil {
			m.Text, err = p.text()
		}
	case LabelEOSE:
		m.SubID, err = p.subID()
	case LabelClosed:
		if m.SubID, err = p.subID(); err == nil {
			m.Text, err = p.text()
		}
	case LabelNotice, LabelAuth:
		m.Text, err = p.text()
	default:
		return ErrUnsupported
	}

	return err
}

func (p *parser) boolean() (bool, error) {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return false, ErrSyntax
	}
	if k := tok.Kind(); k != 't' && k != 'f' {
		return false, ErrShape
	}
	return tok.Bool(), nil
}

// text reads a human-readable message, which old relays leave out.
func (p *parser) text() (string, error) {
	if !p.more(']') {
		return "", nil
	}
	s, err := p.string()
	return Clean(s), err
}

// Clean makes untrusted text safe for a log or a terminal: control and format
// characters (which can reorder a line) become spaces, and the text is cut to 1,024
// bytes.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, clip.Text(s, maxText))
}

// AppendEventMessage appends ["EVENT",event], which publishes the event.
func AppendEventMessage(dst []byte, ev *nostr.Event) []byte {
	dst = append(dst, `["EVENT",`...)
	dst = AppendEvent(dst, ev)
	return append(dst, ']')
}

// EventMessage is AppendEventMessage into a new slice of suitable size.
func EventMessage(ev *nostr.Event) []byte {
	return AppendEventMessage(make([]byte, 0, sizeHint(ev)+320), ev)
}

// AppendAuthMessage appends ["AUTH",event], a client's answer to a challenge.
func AppendAuthMessage(dst []byte, ev *nostr.Event) []byte {
	dst = append(dst, `["AUTH",`...)
	dst = AppendEvent(dst, ev)
	return append(dst, ']')
}

// AppendDelivery appends ["EVENT",subID,event]; event is its JSON form.
func AppendDelivery(dst []byte, subID string, event []byte) []byte {
	dst = append(dst, `["EVENT",`...)
	dst = appendString(dst, subID)
	dst = append(dst, ',')
	dst = append(dst, event...)
	return append(dst, ']')
}

// AppendReq appends ["REQ",subID,filters...].
func AppendReq(dst []byte, subID string, filters []nostr.Filter) []byte {
	dst = append(dst, `["REQ",`...)
	dst = appendString(dst, subID)
	for i := range filters {
		dst = append(dst, ',')
		dst = AppendFilter(dst, &filters[i])
	}
	return append(dst, ']')
}

// AppendOK appends ["OK",id,accepted,text].
func AppendOK(dst []byte, id string, accepted bool, text string) []byte {
	dst = append(dst, `["OK",`...)
	dst = appendString(dst, id)
	if accepted {
		dst = append(dst, `,true,`...)
	} else {
		dst = append(dst, `,false,`...)
	}
	dst = appendString(dst, text)
	return append(dst, ']')
}

// AppendCount appends ["COUNT",id,{"count":n}] (NIP-45).
func AppendCount(dst []byte, id string, n int) []byte {
	dst = append(dst, `["COUNT",`...)
	dst = appendString(dst, id)
	dst = append(dst, `,{"count":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, `}]`...)
}

// AppendLabelled appends a message of strings only, [label,args...], such as CLOSE,
// CLOSED, EOSE and NOTICE.
func AppendLabelled(dst []byte, label string, args ...string) []byte {
	return appendStrings(dst, append([]string{label}, args...))
}
