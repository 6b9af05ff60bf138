package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxSchemaDepth bounds the nesting of a tool's schema.
	MaxSchemaDepth = 32
	// MaxValueDepth bounds the nesting of a tool's input or output.
	MaxValueDepth = 64
	// maxNumberBytes and maxExponent keep a number from costing more than its
	// length: what checks values computes with exact rationals.
	maxNumberBytes = 64
	maxExponent    = 400
)

// ParseValue decodes doc, nested at most depth deep, into maps, slices, strings,
// bools, nil and, with exact digits, json.Number. Names that come twice, text
// that is no UTF-8 and numbers that would be costly are refused.
func ParseValue(doc []byte, depth int) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(doc))
	value, err := readValue(dec, depth)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, ErrNotJSON
	}
	return value, nil
}

var (
	// ErrNotJSON means that a document is no JSON value, or more than one.
	ErrNotJSON = errors.New("not JSON")
	errTooDeep = errors.New("nested too deep")
)

// readValue builds what the validator takes, in one pass.
func readValue(dec *jsontext.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, errTooDeep
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, ErrNotJSON
	}

	switch tok.Kind() {
	case '{':
		object := map[string]any{}
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, ErrNotJSON
			}
			key := name.String()
			if object[key], err = readValue(dec, depth-1); err != nil {
				return nil, err
			}
		}

		_, err = dec.ReadToken()
		return object, orNotJSON(err)
	case '[':
		array := []any{}
		for dec.PeekKind() != ']' {
			item, err := readValue(dec, depth-1)
			if err != nil {
				return nil, err
			}
			array = append(array, item)
		}
		_, err = dec.ReadToken()
		return array, orNotJSON(err)
	case '0':
		number := tok.String()
		return json.Number(number), checkNumber(number)
	case '"':
		return tok.String(), nil
	case 't', 'f':
		return tok.Bool(), nil
	}

	return nil, nil // null
}

func orNotJSON(err error) error {
	if err != nil {
		return ErrNotJSON
	}
	return nil
}

func checkNumber(s string) error {
	if len(s) > maxNumberBytes {
		return errors.New("a number has too many digits")
	}
	_, exp, found := strings.Cut(strings.ToLower(s), "e")
	if !found {
		return nil
	}

	n := 0
	for _, c := range strings.TrimLeft(exp, "+-") {
		if n = n*10 + int(c-'0'); n > maxExponent {
			return errors.New("a number is out of range")
		}
	}

	return nil
}
