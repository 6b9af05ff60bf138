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

// Check runs the strict decoder. It accepts one JSON value with nothing behind it,
// in valid UTF-8 without lone surrogates, with no duplicate key in any object, no
// integer beyond ±(2^53-1) and at most [MaxDepth] levels. The error is a
// *[SyntaxError].
func Check(doc []byte) error {
	var c canon
	if c.accepts(doc) {
		return nil
	}
	e := newEngine(doc)
	return e.document()
}

// Strict is [Check] and also returns the canonical form that its pass wrote. It is
// for callers that decode the document; use [Canonical], which asks a second
// implementation, for bytes that are hashed.
func Strict(doc []byte) ([]byte, error) {
	var c canon
	if c.accepts(doc) {
		return bytes.Clone(doc), nil
	}
	e := newEngine(doc)
	err := e.document()
	return e.out, err
}

// Canonical returns the RFC 8785 form of a document that passes [Check].
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

// likeStandard makes the library write as encoding/json does, except for escapes
// that canonical text does not have. It is a variable because the library caches
// the encoder of each type in it.
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

	// Marshal writes the fields of a struct in the order of their declaration, so
	// the library sorts them first. If Canonical then finds nothing to change, two
	// implementations agree on the form.
	sorted := jsontext.Value(doc)
	if err := sorted.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Canonical(sorted)
}

// marshalNumber writes encoding/json's Number as a number. The library would write
// it as a string, like any other string type.
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
// or wrap a *[MismatchError].
//
// Use it for our own formats, and [UnmarshalKnown] where a specification says that
// unknown fields are ignored.
func Unmarshal(doc []byte, v any) error {
	if err := Check(doc); err != nil {
		return err
	}
	return UnmarshalStrict(doc, v)
}

// UnmarshalKnown is [Unmarshal] for a format of others that may grow: members that v has
// no field for are checked and then ignored.
func UnmarshalKnown(doc []byte, v any) error {
	if err := Check(doc); err != nil {
		return err
	}
	return decode(doc, v)
}

// UnmarshalStrict is [Unmarshal] for a document that has already passed [Check],
// such as the output of [Strict].
func UnmarshalStrict(doc []byte, v any) error {
	return decode(doc, v, json.RejectUnknownMembers(true))
}

// decode reads a document that passed Check.
func decode(doc []byte, v any, options ...json.Options) error {
	// Check found no duplicate name, so the library need not look for one.
	if err := json.Unmarshal(doc, v, append(options, jsontext.AllowDuplicateNames(true))...); err != nil {
		return fmt.Errorf("decode: %w", Mismatch(err))
	}
	return nil
}
