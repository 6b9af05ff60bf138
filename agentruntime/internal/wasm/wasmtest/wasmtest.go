// Package wasmtest encodes small WebAssembly modules for tests, in particular
// hostile ones that no compiler would produce.
package wasmtest

import "encoding/binary"

// Value types.
const (
	I32 = 0x7f
	I64 = 0x7e
)

// Import is an imported function. Imports have the lowest function numbers.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Func is a function; Body is its code without the final end.
type Func struct {
	Export          string // "" if it is not exported
	Params, Results []byte
	Locals          int // of type i32, after the parameters
	Body            []byte
}

// Module is the input of Encode. Its memory, if any, is exported.
type Module struct {
	Imports  []Import
	Funcs    []Func
	MinPages uint32
	MaxPages uint32 // 0 declares no maximum
	Start    int    // number of the start function; 0 or less has none
	Global   bool   // one mutable i32, initially 0
	Data     map[uint32][]byte
}

// Addresses at which Reactor's modules read and write.
const (
	InputAt  = 1024
	OutputAt = 4096
)

// Reactor returns a module of two pages whose handle runs body; its input is always
// at InputAt. Its functions follow the imports: alloc, then handle.
func Reactor(body []byte, imports ...Import) Module {
	return Module{
		Imports: imports, MinPages: 2, Data: map[uint32][]byte{},
		Funcs: []Func{
			{Export: "lightwork_alloc", Params: []byte{I32}, Results: []byte{I32}, Body: Const(InputAt)},
			{Export: "handle", Params: []byte{I32, I32}, Results: []byte{I64}, Locals: 4, Body: body},
		},
	}
}

// Answer returns a reactor whose handle always returns output.
func Answer(output string) Module {
	m := Reactor(Result(OutputAt, uint32(len(output))))
	m.Data[OutputAt] = []byte(output)
	return m
}

// Result is code that returns n bytes at place.
func Result(place, n uint32) []byte { return Const64(int64(place)<<32 | int64(n)) }

// Op is an instruction without operands, or raw code.
func Op(code ...byte) []byte { return code }

// Const is i32.const.
func Const(v int32) []byte { return append([]byte{0x41}, sleb(int64(v))...) }

// Const64 is i64.const.
func Const64(v int64) []byte { return append([]byte{0x42}, sleb(v)...) }

// Call is call.
func Call(n uint32) []byte { return append([]byte{0x10}, uleb(n)...) }

// Get and Set are local.get and local.set.
func Get(n uint32) []byte { return append([]byte{0x20}, uleb(n)...) }

// Set is local.set.
func Set(n uint32) []byte { return append([]byte{0x21}, uleb(n)...) }

// Forever is an endless loop.
func Forever() []byte { return Op(0x03, 0x40, 0x0c, 0x00, 0x0b) }

// Code joins instructions.
func Code(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// Encode makes the binary.
func (m Module) Encode() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	var types, imports, funcs, exports, code [][]byte
	for i, imp := range m.Imports {
		types = append(types, funcType(imp.Params, imp.Results))
		imports = append(imports, Code(name(imp.Module), name(imp.Name), []byte{0}, uleb(uint32(i))))
	}

	for i, f := range m.Funcs {
		number := uint32(len(m.Imports) + i)
		types = append(types, funcType(f.Params, f.Results))
		funcs = append(funcs, uleb(number))
		if f.Export != "" {
			exports = append(exports, Code(name(f.Export), []byte{0}, uleb(number)))
		}
		locals := []byte{0}
		if f.Locals > 0 {
			locals = Code([]byte{1}, uleb(uint32(f.Locals)), []byte{I32})
		}
		code = append(code, sized(Code(locals, f.Body, []byte{0x0b})))
	}

	out = append(out, Code(Section(1, types), Section(2, imports), Section(3, funcs))...)
	if m.MinPages > 0 {
		limits := Code([]byte{0}, uleb(m.MinPages))
		if m.MaxPages > 0 {
			limits = Code([]byte{1}, uleb(m.MinPages), uleb(m.MaxPages))
		}
		out = append(out, Section(5, [][]byte{limits})...)
		exports = append(exports, Code(name("memory"), []byte{2, 0}))
	}

	if m.Global {
		out = append(out, Section(6, [][]byte{{I32, 1, 0x41, 0, 0x0b}})...)
	}
	out = append(out, Section(7, exports)...)
	if m.Start > 0 {
		out = append(out, Code([]byte{8}, sized(uleb(uint32(m.Start))))...)
	}
	return append(out, Code(Section(10, code), Section(11, m.data()))...)
}

func (m Module) data() [][]byte {
	var all [][]byte
	for at, bytes := range m.Data {
		all = append(all, Code([]byte{0}, Const(int32(at)), []byte{0x0b}, sized(bytes)))
	}
	return all
}

// Section encodes a section with a list of entries; an empty section is left out.
func Section(id byte, entries [][]byte) []byte {
	if len(entries) == 0 {
		return nil
	}
	return Code([]byte{id}, sized(Code(uleb(uint32(len(entries))), Code(entries...))))
}

func funcType(params, results []byte) []byte {
	return Code([]byte{0x60}, sized(params), sized(results))
}

func name(s string) []byte { return sized([]byte(s)) }

func sized(b []byte) []byte { return append(uleb(uint32(len(b))), b...) }

func uleb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func sleb(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
