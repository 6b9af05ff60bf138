package receipts

import (
	"strconv"
)

func appendTags(b []byte, tags [][]string, escapeControls bool) []byte {
	b = append(b, '[')
	for i, tag := range tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, item := range tag {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(b, item, escapeControls)
		}
		b = append(b, ']')
	}

	return append(b, ']')
}

// appendString escapes the seven characters that NIP-01 names and leaves all
// others as they are. With escapeControls the remaining control characters
// become \u00xx, as JSON demands and as JSON.stringify writes them.
func appendString(b []byte, s string, escapeControls bool) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		run := i
		for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' {
			i++
		}
		b = append(b, s[run:i]...)
		if i == len(s) {
			break
		}

		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case escapeControls:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}

	return append(b, '"')
}

// JSON is the event in its one form for a bundle: the fields in the order of
// NIP-01 and no whitespace. Write these bytes, not those of json.Marshal,
// which rewrites <, > and &.
func (e *Event) JSON() []byte {
	b := make([]byte, 0, 512+len(e.Content)+80*len(e.Tags))
	b = append(b, `{"id":"`...)
	b = append(b, e.ID...)
	b = append(b, `","pubkey":"`...)
	b = append(b, e.PubKey...)
	b = append(b, `","created_at":`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(e.Kind), 10)
	b = append(b, `,"tags":`...)
	b = appendTags(b, e.Tags, true)
	b = append(b, `,"content":`...)
	b = appendString(b, e.Content, true)
	b = append(b, `,"sig":"`...)
	b = append(b, e.Sig...)
	return append(b, `"}`...)
}

// MarshalJSON returns JSON.
func (e Event) MarshalJSON() ([]byte, error) { return e.JSON(), nil }

// UnmarshalJSON is ParseEvent without a limit of its own.
func (e *Event) UnmarshalJSON(doc []byte) error {
	parsed, err := ParseEvent(doc, len(doc))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}
