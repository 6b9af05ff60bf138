package hashing

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/gowebpki/jcs"
)

// Check runs the strict decoder: one JSON value and nothing behind it, valid
// UTF-8 without lone surrogates, no duplicate key in any object, no integer
// beyond ±(2^53-1), at most [MaxDepth] levels. The error is a *[SyntaxError].
func Check(doc []byte) error {
	var c canon
	if c.accepts(doc) {
		return nil
	}
	e := newEngine(doc)
	return e.document()
}

// Strict is [Check], and returns the document as its one pass wrote it: in
// canonical form. It is for who reads on; what is hashed [Canonical] makes.
func Strict(doc []byte) ([]byte, error) {
	var c canon
	if c.accepts(doc) {
		return bytes.Clone(doc), nil
	}
	e := newEngine(doc)
	err := e.document()
	return e.out, err
}

// Canonical returns the RFC 8785 form of a document that passes [Check]. What
// comes in that form already is not transformed again.
func Canonical(doc []byte) ([]byte, error) {
	text, err := Strict(doc)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(text, doc) {
		return text, nil
	}

	out, err := jcs.Transform(doc)
	if err != nil {
		return nil, fmt.Errorf("canonicalize: %w", err)
	}
	return out, nil
}

// likeStandard has the library write what encoding/json does, but no escapes that
// canonical text has not. It is made once: it remembers how each type is written.
var likeStandard = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsontext.AllowInvalidUTF8(false),
	jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false),
	json.WithMarshalers(json.MarshalToFunc(marshalNumber)),
)

// CanonicalValue returns the canonical form of v as encoding/json would
// marshal it, tags and methods included. Unlike encoding/json it refuses a
// string of invalid UTF-8, which would there become U+FFFD and so hash like
// another string.
func CanonicalValue(v any) ([]byte, error) {
	doc, err := json.Marshal(v, likeStandard)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var c canon
	if c.accepts(doc) {
		return doc, nil
	}

	// Fields of a struct come in the order of its declaration. The library that
	// wrote them puts them into that of RFC 8785, and leaves numbers alone: if
	// Canonical then finds nothing to change, two implementations agree.
	sorted := jsontext.Value(doc)
	if err := sorted.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Canonical(sorted)
}

// marshalNumber writes encoding/json's Number as a number; to the JSON
// library used here it is a string type like any other.
func marshalNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	if n == "" {
		n = "0" // as encoding/json does
	}
	return enc.WriteValue(jsontext.Value(n))
}

// Sum returns the digest of the document's canonical form.
func Sum(doc []byte) (Digest, error) {
	out, err := Canonical(doc)
	if err != nil {
		return Digest{}, err
	}
	return Bytes(out), nil
}

// SumValue returns the digest of [CanonicalValue].
func SumValue(v any) (Digest, error) {
	out, err := CanonicalValue(v)
	if err != nil {
		return Digest{}, err
	}
	return Bytes(out), nil
}

// Unmarshal decodes a document that passes [Check] into v. Names must match
// exactly, case included, and every member of the document must have a field.
// Fields that the document lacks keep their value. Errors are *[SyntaxError]
// or wrap a *[MisfitError].
//
// Use it for our own formats; where a specification says that unknown fields
// are ignored, Check and encoding/json do.
func Unmarshal(doc []byte, v any) error {
	if err := Check(doc); err != nil {
		return err
	}
	return UnmarshalStrict(doc, v)
}

// UnmarshalStrict is [Unmarshal] of what [Check] was seen to pass, such as what
// [Strict] returns.
func UnmarshalStrict(doc []byte, v any) error {
	// No name comes twice in it: the library need not look.
	if err := json.Unmarshal(doc, v, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return fmt.Errorf("decode: %w", Misfit(err))
	}
	return nil
}
