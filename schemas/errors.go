package schemas

import (
	"errors"
	"strconv"
	"strings"
)

// ErrNoAgreement means that results of a job type cannot be compared, because those
// of honest providers differ.
var ErrNoAgreement = errors.New("schema has no agreement projection")

// A FieldError refuses one field of a request or result.
type FieldError struct {
	// Field is the path of the field, for example "sandbox.image_digest" or
	// "commands[0].cmd"; empty for the document itself.
	Field string
	// Reason says what is wrong. It repeats only short, quoted names of the
	// document, so it is safe to send to others.
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// maxPathName bounds how much of a hostile name a path repeats.
const maxPathName = 64

// child returns the path of a member. Names that are not plain identifiers are
// quoted, so that a path is always printable and unambiguous.
func child(path, name string) string {
	plain := name != "" && len(name) <= maxPathName
	for _, c := range []byte(name) {
		ok := c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		plain = plain && ok
	}

	if !plain {
		if len(name) > maxPathName {
			name = name[:maxPathName] + "..."
		}
		return path + "[" + strconv.QuoteToASCII(name) + "]"
	}
	if path == "" {
		return name
	}

	return path + "." + name
}

// item returns the path of an array element.
func item(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// oneOf renders an enumeration for a reason.
func oneOf(names []string) string {
	return "must be one of " + strings.Join(names, ", ")
}
