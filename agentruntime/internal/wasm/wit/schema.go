package wit

import (
	"encoding/json"
	"fmt"
	"strings"
)

// object is a node of a JSON Schema. encoding/json sorts its members, so equal
// types have equal schemas, byte for byte.
type object = map[string]any

// InputSchema returns the JSON Schema (2020-12) of the function's input. A function
// with one record as its parameter takes that record; any other function takes an
// object of its parameters by name.
func (f *Func) InputSchema() (json.RawMessage, error) {
	t := &Type{Kind: Record, Fields: f.Params}
	if f.WrapsOneRecord() {
		t = f.Params[0].Type
	}
	return marshal(t.schema())
}

// WrapsOneRecord reports whether the input is the only parameter itself.
func (f *Func) WrapsOneRecord() bool {
	return len(f.Params) == 1 && f.Params[0].Type.Kind == Record
}

// OutputSchema returns the JSON Schema of a successful call's result: the return
// type, or the first type of a result<response, error>. It must be a record,
// because the output of a tool is an object.
func (f *Func) OutputSchema() (json.RawMessage, error) {
	t := f.Success()
	if t == nil || t.Kind != Record {
		return nil, f.at.errorf("func %s must return a record, or a result of one", f.Name)
	}
	if f.Fallible() && (f.Result.Args[1] == nil || f.Result.Args[1].Kind != String) {
		return nil, f.at.errorf("the error of func %s must be a string", f.Name)
	}
	return marshal(t.schema())
}

// Success returns the type of a successful result; nil if there is none.
func (f *Func) Success() *Type {
	if f.Fallible() {
		return f.Result.Args[0]
	}
	return f.Result
}

// Fallible reports whether the function returns a result<..., ...>.
func (f *Func) Fallible() bool { return f.Result != nil && f.Result.Kind == Result }

func marshal(schema object) (json.RawMessage, error) {
	doc, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("marshal schema: %w", err)
	}
	return doc, nil
}

// integers are the bounds of the integer types. The 64-bit bounds are exact,
// because the validator uses exact numbers.
var integers = map[Kind][2]json.Number{
	U8: {"0", "255"}, U16: {"0", "65535"}, U32: {"0", "4294967295"}, U64: {"0", "18446744073709551615"},
	S8: {"-128", "127"}, S16: {"-32768", "32767"}, S32: {"-2147483648", "2147483647"},
	S64: {"-9223372036854775808", "9223372036854775807"},
}

func (t *Type) schema() object {
	switch t.Kind {
	case Bool:
		return object{"type": "boolean"}
	case String:
		return object{"type": "string"}
	case Char:
		return object{"type": "string", "minLength": 1, "maxLength": 1}
	case F32, F64:
		return object{"type": "number"}
	case List:
		return object{"type": "array", "items": t.Args[0].schema()}
	case Option:
		return object{"anyOf": []any{t.Args[0].schema(), object{"type": "null"}}}
	case Tuple:
		return t.tuple()
	case Result:
		return object{"oneOf": []any{branch("ok", t.Args[0]), branch("err", t.Args[1])}}
	case Record:
		return t.record()
	case Enum:
		cases := make([]string, len(t.Cases))
		for i, c := range t.Cases {
			cases[i] = jsonName(c)
		}
		return object{"type": "string", "enum": cases}
	}

	bounds := integers[t.Kind]
	return object{"type": "integer", "minimum": bounds[0], "maximum": bounds[1]}
}

// jsonName converts a WIT name for JSON: WIT joins words with hyphens, job types
// with underscores. Names stay distinct, because WIT has no underscores.
func jsonName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// record leaves options out of the required fields: an absent field is none.
func (t *Type) record() object {
	properties, required := object{}, []string{}
	for _, f := range t.Fields {
		s := f.Type.schema()
		if f.Docs != "" {
			s["description"] = f.Docs
		}
		name := jsonName(f.Name)
		properties[name] = s
		if f.Type.Kind != Option {
			required = append(required, name)
		}
	}

	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (t *Type) tuple() object {
	items := make([]any, len(t.Args))
	for i, arg := range t.Args {
		items[i] = arg.schema()
	}
	return object{"type": "array", "prefixItems": items, "items": false, "minItems": len(items)}
}

// branch is one case of a nested result: {"ok": value} or {"err": value}, with null
// if there is no value.
func branch(name string, t *Type) object {
	value := object{"type": "null"}
	if t != nil {
		value = t.schema()
	}
	return object{
		"type": "object", "properties": object{name: value},
		"required": []string{name}, "additionalProperties": false,
	}
}
