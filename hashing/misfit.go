package hashing

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A MisfitError says which value of a document does not fit what it is decoded
// into. Its words are the same in every run, unlike the decoder's own, which
// stand in documents and are compared.
type MisfitError struct {
	Pointer string // RFC 6901, shortened; "" for the document itself
	Kind    string // what is there, such as "a string"; "" where a name is wrong
	cause   error
}

// Misfit gives the decoder's error words that do not change; another error stays
// what it is.
func Misfit(err error) error {
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	m := &MisfitError{Pointer: string(semantic.JSONPointer), cause: semantic.Err}
	m.Pointer = m.Pointer[:min(len(m.Pointer), maxErrorKey)]
	if !errors.Is(semantic.Err, json.ErrUnknownName) {
		m.Kind = kindName(semantic.JSONKind)
	}
	return m
}

func (e *MisfitError) Error() string {
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

// Unwrap is what a type says that reads itself; nil of others.
func (e *MisfitError) Unwrap() error { return e.cause }

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
