package wasm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tetratelabs/wazero/api"
)

// callReactor calls an exported function as described in the package comment. The
// module is untrusted, so every number that it returns is checked.
func callReactor(ctx context.Context, m api.Module, function string, input []byte, limit int) ([]byte, error) {
	fn, alloc := m.ExportedFunction(function), m.ExportedFunction(exportAlloc)
	if !hasType(fn, 2, api.ValueTypeI64) || !hasType(alloc, 1, api.ValueTypeI32) || m.Memory() == nil {
		return nil, fmt.Errorf("%w: exports of the wrong type", ErrOutput)
	}
	place, err := alloc.Call(ctx, uint64(len(input)))
	if err != nil {
		return nil, trap(err)
	}
	if !m.Memory().Write(uint32(place[0]), input) {
		return nil, fmt.Errorf("%w: %s returned an address outside the memory", ErrOutput, exportAlloc)
	}

	packed, err := fn.Call(ctx, uint64(uint32(place[0])), uint64(len(input)))
	if err != nil {
		return nil, trap(err)
	}
	ptr, size := uint32(packed[0]>>32), uint32(packed[0])
	if uint64(size) > uint64(limit) {
		return nil, ErrOutputTooLarge
	}
	out, ok := m.Memory().Read(ptr, size)
	if !ok {
		return nil, fmt.Errorf("%w: %s returned an address outside the memory", ErrOutput, function)
	}
	return append([]byte(nil), out...), nil // the memory ends with the instance
}

// hasType reports whether fn takes params parameters of type i32 and returns one
// result.
func hasType(fn api.Function, params int, result api.ValueType) bool {
	if fn == nil {
		return false
	}
	def := fn.Definition()
	if len(def.ParamTypes()) != params || len(def.ResultTypes()) != 1 || def.ResultTypes()[0] != result {
		return false
	}

	for _, t := range def.ParamTypes() {
		if t != api.ValueTypeI32 {
			return false
		}
	}

	return true
}

// decodeOutput returns the value in a function's output, which must be JSON with
// unique names; the value must be an object.
func decodeOutput(out []byte, fallible bool) (json.RawMessage, error) {
	doc := jsontext.Value(out)
	if !doc.IsValid() || doc.Kind() != '{' {
		return nil, fmt.Errorf("%w: not a JSON object", ErrOutput)
	}
	if !fallible {
		return json.RawMessage(out), nil
	}

	var result map[string]json.RawMessage
	if err := json.Unmarshal(out, &result); err != nil || len(result) != 1 {
		return nil, fmt.Errorf(`%w: not {"ok": ...} or {"err": ...}`, ErrOutput)
	}
	if ok := jsontext.Value(result["ok"]); ok.Kind() == '{' {
		return result["ok"], nil
	}

	var message *string
	if err := json.Unmarshal(result["err"], &message); err != nil || message == nil {
		return nil, fmt.Errorf(`%w: neither "ok" with an object nor "err" with a text`, ErrOutput)
	}
	return nil, &Failure{Message: *message}
}
