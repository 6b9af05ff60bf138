package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// PlainJSON formats a JSON document so that it cannot control a terminal, because
// JSON allows such characters in strings. The meaning does not change.
func PlainJSON(doc []byte) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(string(doc), "\ufffd") {
		switch {
		case r == '\r' || r == '\t': // between the parts of a document
			b.WriteByte(' ')
		case r != '\n' && steers(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}

	return b.String()
}

// PrettyJSON formats a stored document for display.
func PrettyJSON(doc []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, doc, "", "  ") != nil {
		return Printable(string(doc))
	}
	return PlainJSON(out.Bytes())
}
