// Package wit parses a subset of WIT, the interface language of WebAssembly
// components. In it a tool declares its input, its output and the access that it
// may be granted:
//
//	package example:count@1.0.0;
//
//	world count {
//	  import wasi:filesystem/types@0.2.0;
//
//	  record request { text: string, limit: option<u32> }
//	  record response { words: u32 }
//
//	  /// Counts words.
//	  export handle: func(req: request) -> result<response, string>;
//	}
//
// The subset is: package, interface, world, import and export by name, inline
// export of a func, use of names from an interface of the same file, record, enum,
// type, func, and the types bool, char, string, the integers, the floats, list,
// option, result, tuple. Everything else (variant, flags, resource, include, gates)
// is refused with its position and never skipped, because a declaration that is not
// understood cannot be enforced.
//
// Documents come from authors of tools and are untrusted: size, number of tokens
// and nesting of types are bounded.
package wit

import "fmt"

// Limits of a document.
const (
	MaxBytes  = 64 << 10
	maxTokens = 16 << 10
	maxDepth  = 16   // nesting of types, including through names
	maxNodes  = 2000 // parts of one type, after names are replaced
	maxIdent  = 100  // bytes
	maxDocs   = 2000 // bytes of one doc comment
)

// Error is a refusal with the position of its cause.
type Error struct {
	Line, Column int // from 1; the column counts bytes
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("wit: line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// Document is one file.
type Document struct {
	Package    ID // Interface is empty
	Interfaces map[string]*Interface
	World      *World // exactly one
}

// ID identifies a package or an interface: "agentos:kv/store@0.1.0". An interface
// of the same file has neither namespace nor package.
type ID struct{ Namespace, Package, Interface, Version string }

// Unversioned returns the id without its version: "agentos:kv/store".
func (id ID) Unversioned() string {
	if id.Namespace == "" {
		return id.Interface
	}
	s := id.Namespace + ":" + id.Package
	if id.Interface != "" {
		s += "/" + id.Interface
	}
	return s
}

func (id ID) String() string {
	if id.Version == "" {
		return id.Unversioned()
	}
	return id.Unversioned() + "@" + id.Version
}

// Interface is a named group of types and functions.
type Interface struct {
	Name  string
	Types map[string]*TypeDef
	Funcs []*Func
}

// World lists the imports and exports of a tool.
type World struct {
	Name    string
	Docs    string
	Imports []ID
	Exports []*Func // of the world itself and of its exported interfaces
}

// Func is an exported function. All names in its types are resolved.
type Func struct {
	Name   string
	Docs   string
	Params []Field
	Result *Type // nil if there is none
	at     token
}

// Field is a parameter or a field of a record.
type Field struct {
	Name string
	Docs string
	Type *Type
}

// TypeDef gives a type a name.
type TypeDef struct {
	Name string
	Type *Type
	at   token
}

// Kind is the form of a type.
type Kind int

// The kinds. Named occurs only during parsing.
const (
	Bool Kind = iota + 1
	Char
	String
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F32
	F64
	List   // Args[0]
	Option // Args[0]
	Tuple  // Args
	Result // Args[0], Args[1]; either may be nil
	Record // Fields
	Enum   // Cases
	Named  // Name
)

var primitives = map[string]Kind{
	"bool": Bool, "char": Char, "string": String, "u8": U8, "u16": U16, "u32": U32, "u64": U64,
	"s8": S8, "s16": S16, "s32": S32, "s64": S64, "f32": F32, "f64": F64, "float32": F32, "float64": F64,
}

// Type is a type. Kind determines which fields are set.
type Type struct {
	Kind   Kind
	Args   []*Type
	Fields []Field
	Cases  []string
	Name   string
	at     token
}
