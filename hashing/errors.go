package hashing

import "fmt"

// A Reason says why a document was refused. The values are stable, so they can be
// compared and logged.
type Reason string

// The reasons of a [SyntaxError].
const (
	ReasonEnd          Reason = "unexpected end"
	ReasonCharacter    Reason = "unexpected character"
	ReasonTrailing     Reason = "trailing data"
	ReasonDepth        Reason = "nested too deep"
	ReasonDuplicateKey Reason = "duplicate key"
	ReasonUTF8         Reason = "invalid UTF-8"
	ReasonSurrogate    Reason = "lone surrogate"
	ReasonEscape       Reason = "invalid escape"
	ReasonControl      Reason = "control character in string"
	ReasonInteger      Reason = "integer beyond 2^53-1"
	ReasonRange        Reason = "number out of range"
	ReasonNumberLength Reason = "number too long"
)

// A SyntaxError is a refusal of the strict decoder.
type SyntaxError struct {
	Offset int64  // bytes before the offending byte, key or number
	Reason Reason // what is wrong there
	Key    string // the key, shortened, when Reason is ReasonDuplicateKey
}

func (e *SyntaxError) Error() string {
	if e.Reason == ReasonDuplicateKey {
		return fmt.Sprintf("JSON at byte %d: %s %q", e.Offset, e.Reason, e.Key)
	}
	return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Reason)
}

// maxErrorKey bounds how much of a hostile document an error repeats.
const maxErrorKey = 64

func duplicateKey(off int64, key []byte) error {
	if len(key) > maxErrorKey {
		key = key[:maxErrorKey]
	}
	return &SyntaxError{Offset: off, Reason: ReasonDuplicateKey, Key: string(key)}
}
