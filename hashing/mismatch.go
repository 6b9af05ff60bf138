package hashing

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A MismatchError names the value of a document that does not fit the Go type it is
// decoded into. Its text is the same in every run. The decoder's own text is not, and
// such texts are stored in documents and compared.
type MismatchError struct {
	Pointer string // RFC 6901, shortened; "" for the document itself
	Kind    string // of the value, such as "a string"; "" where a name is unknown
	cause   error
}

// Mismatch turns an error of the JSON decoder into a *[MismatchError], and returns
// any other error as it is.
func Mismatch(err error) error {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	m := &MismatchError{Pointer: string(semantic.JSONPointer), cause: semantic.Err}
	m.Pointer = m.Pointer[:min(len(m.Pointer), maxErrorKey)]
	if !errors.Is(semantic.Err, json.ErrUnknownName) {
		m.Kind = kindName(semantic.JSONKind)
	}
	return m
}

func (e *MismatchError) Error() string {
	where := "the document"
	if e.Pointer != "" {
		where = strconv.Quote(e.Pointer)
	}
	text := where + " does not fit"
	if e.Kind != "" {
		text = where + " is " + e.Kind + ", which does not fit"
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the error of a type's own Unmarshal method, or nil.
func (e *MismatchError) Unwrap() error { return e.cause }

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject, jsontext.KindEndObject:
		return "an object"
	case jsontext.KindBeginArray, jsontext.KindEndArray:
		return "a list"
	}

	return ""
}
