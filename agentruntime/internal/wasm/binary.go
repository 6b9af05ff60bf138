package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Kinds of imports, and the only section that is read here.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
	kindTag    = 4

	sectionImport = 2
	maxImports    = 1000
)

var errShort = errors.New("the module ends too early")

// moduleImport is one entry of the import section.
type moduleImport struct {
	module, name string
	kind         byte
}

// readImports lists a module's imports before it is compiled. wazero would list
// only functions and memories.
func readImports(module []byte) ([]moduleImport, error) {
	if len(module) < 8 || !bytes.HasPrefix(module, []byte("\x00asm")) {
		return nil, ErrNotModule
	}

	switch version, layer := module[4], module[6]; {
	case layer == 1:
		return nil, ErrComponent
	case version != 1 || module[5]|module[6]|module[7] != 0:
		return nil, fmt.Errorf("%w of version 1", ErrNotModule)
	}

	r := &reader{rest: module[8:]}
	var all []moduleImport
	for len(r.rest) > 0 && r.err == nil {
		id := r.byte()
		body := &reader{rest: r.bytes(r.u32())}
		if r.err != nil || id != sectionImport {
			continue
		}
		if all != nil {
			return nil, fmt.Errorf("%w: a second import section", ErrNotModule)
		}
		all = body.imports()
		r.err = body.err
	}

	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotModule, r.err)
	}
	return all, nil
}

// reader decodes a slice. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) imports() []moduleImport {
	n := r.u32()
	if n > maxImports {
		r.err = fmt.Errorf("more than %d imports", maxImports)
	}

	all := []moduleImport{}
	for i := uint32(0); i < n && r.err == nil; i++ {
		imp := moduleImport{module: r.name(), name: r.name(), kind: r.byte()}
		r.skipType(imp.kind)
		all = append(all, imp)
	}

	if r.err == nil && len(r.rest) > 0 {
		r.err = errors.New("bytes after the last import")
	}
	return all
}

func (r *reader) skipType(kind byte) {
	switch kind {
	case kindFunc:
		r.u32()
	case kindTable:
		r.byte()
		r.limits()
	case kindMemory:
		r.limits()
	case kindGlobal:
		r.bytes(2)
	case kindTag:
		r.byte()
		r.u32()
	default:
		r.fail(errors.New("unknown kind of import"))
	}
}

func (r *reader) limits() {
	flags := r.byte()
	r.u32()
	if flags&1 != 0 {
		r.u32()
	}
}

func (r *reader) name() string {
	s := string(r.bytes(r.u32()))
	if !utf8.ValidString(s) {
		r.fail(errors.New("a name that is not UTF-8"))
	}
	return s
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err, r.rest = err, nil
	}
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail(errShort)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// u32 reads a number in LEB128.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}

	r.fail(errors.New("a number of more than 32 bits"))
	return 0
}
