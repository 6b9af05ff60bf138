// Package wasm runs tools that are WebAssembly modules. A tool is a folder:
//
//	count/
//	  tool.wit      what it takes, returns and may be given at most (package wit)
//	  module.wasm   a core module
//	  tool.json     the operator's grants and limits; without it nothing is granted
//
// # What runs
//
// The runtime is wazero, for core WebAssembly with WASI preview 1. The component
// model is not supported: a component binary is refused. The WIT text is a
// declaration: the schemas of the tool are derived from it, and a module with
// imports that it does not declare is refused when it is loaded (AP-13.1.2, K-44).
//
// # How a module is called
//
// Each call gets a new instance, so nothing outlives it except what the tool writes
// to a granted store or directory. Values are JSON in the shape of their WIT types:
// a record is an object with its fields, an option that is none is absent,
// result<t, string> is {"ok": t} or {"err": "text"}. Names of fields and enum cases
// have underscores instead of WIT's hyphens, like the names in job types: model-id
// is "model_id". The input of a function with one record as its parameter is that
// record; the input of any other function is an object of its parameters by name.
// There are two kinds of modules:
//
//   - A command exports _start. It is run with two arguments, the tool's name
//     and the name of the function ("handle"). It reads the input from standard
//     input up to its end, writes the output to standard output and ends with
//     code 0; any other code is a crash. Any language with WASI can do this.
//   - A reactor exports memory, lightwork_alloc(len i32) -> i32, which returns
//     where len bytes may be written, and each function under its WIT name as
//     (ptr i32, len i32) -> i64: the input's place in, the output's out, as
//     ptr<<32 | len. _initialize is called first if it is exported.
//
// The WIT functions are handle, which is required, and get-metadata, which has no
// parameters, as in agentos:tool@0.1.0 (APX-1). The functions of agentos:kv/store
// (APX-2) are described at [kv].
//
// # What a module can reach
//
// Without grants, nothing: no directory is open, the environment is empty, standard
// error is dropped, the clock starts at a fixed time and random numbers have a
// fixed seed, so that the same module, input and grants give the same bytes
// (AP-13.3.1). A grant beyond the declaration is a configuration error. Network
// access cannot be granted.
//
// A reactor needs no imports; a command needs the few functions of WASI that read
// its input, write its output and end it. Those are part of every call and need no
// declaration.
//
// # Time
//
// A Runner cannot interrupt its module: checking for the end in every loop makes
// tight loops an order of magnitude slower (K-43). Untrusted modules should run in
// a process that can be killed, as in package wasmhost.
package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wit"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// The files of a tool.
const (
	WITFile      = "tool.wit"
	ModuleFile   = "module.wasm"
	SettingsFile = "tool.json"
)

// Functions that a tool exports.
const (
	funcHandle   = "handle"
	funcMetadata = "get-metadata"
)

const (
	// maxModuleBytes bounds the size of a module.
	maxModuleBytes   = 32 << 20
	maxSettingsBytes = 64 << 10
)

var (
	// ErrComponent means that the module is a component.
	ErrComponent = errors.New("wasm: this is a component, not a core module; build for wasm32-wasip1 " +
		"(Go: GOOS=wasip1 GOARCH=wasm; Rust: --target wasm32-wasip1) and leave out the step that makes a component")
	// ErrNotModule means that the file is not a WebAssembly module.
	ErrNotModule = errors.New("wasm: not a WebAssembly module")
	// ErrGrant means that a grant is not declared in the WIT.
	ErrGrant = errors.New("wasm: granted but not declared")
)

// ImportError names an import that a module may not have.
type ImportError struct{ Module, Name, Reason string }

func (e *ImportError) Error() string {
	return fmt.Sprintf("wasm: import %q %q: %s", e.Module, e.Name, e.Reason)
}

// Tool is a checked folder. It is immutable.
type Tool struct {
	Name         string // the folder's name
	Dir          string
	Description  string // the WIT comment of handle, or of the world
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Settings     Settings
	Digest       string // "sha256:..." over the three files

	module   []byte
	imports  []moduleImport
	handle   *wit.Func
	metadata *wit.Func // nil if it is not exported
}

// SideEffects reports whether a call can affect later calls.
func (t *Tool) SideEffects() bool {
	for _, m := range t.Settings.Grants.FS {
		if !m.ReadOnly {
			return true
		}
	}
	return t.usesKV()
}

func (t *Tool) usesKV() bool { return t.kvModule() != "" }

// kvModule returns the name under which the module imports the store, or "".
func (t *Tool) kvModule() string {
	for _, imp := range t.imports {
		if strings.HasPrefix(imp.module, kvInterface) {
			return imp.module
		}
	}
	return ""
}

// Load reads the tool in dir and checks everything that can be checked without
// running it. An invalid document gives a *wit.Error, a refused import an
// *ImportError.
func Load(dir string) (*Tool, error) {
	name := filepath.Base(filepath.Clean(dir))
	if !wire.ValidToolName(name) {
		return nil, fmt.Errorf("wasm: folder %q cannot name a tool", name)
	}
	t, err := load(name, dir)
	if err != nil {
		return nil, fmt.Errorf("load tool %s: %w", name, err)
	}
	return t, nil
}

func load(name, dir string) (*Tool, error) {
	root, err := os.OpenRoot(dir) // a tool's files may not be links out of its folder
	if err != nil {
		return nil, err
	}
	defer root.Close()

	text, err := readFile(root, WITFile, wit.MaxBytes)
	if err != nil {
		return nil, err
	}
	module, err := readFile(root, ModuleFile, maxModuleBytes)
	if err != nil {
		return nil, err
	}
	settings, err := readFile(root, SettingsFile, maxSettingsBytes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	t := &Tool{Name: name, Dir: dir, module: module, Digest: digest(text, module, settings)}
	doc, err := wit.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", WITFile, err)
	}
	if err := t.describe(doc); err != nil {
		return nil, fmt.Errorf("%s: %w", WITFile, err)
	}

	declared, err := declare(doc.World.Imports)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", WITFile, err)
	}
	if t.Settings, err = parseSettings(settings, declared); err != nil {
		return nil, fmt.Errorf("%s: %w", SettingsFile, err)
	}
	if t.imports, err = readImports(module); err != nil {
		return nil, fmt.Errorf("%s: %w", ModuleFile, err)
	}

	return t, declared.check(t.imports)
}

// describe derives the functions and the schemas from the declaration.
func (t *Tool) describe(doc *wit.Document) error {
	for _, f := range doc.World.Exports {
		switch {
		case f.Name == funcHandle:
			t.handle = f
		case f.Name == funcMetadata && len(f.Params) == 0:
			t.metadata = f
		default:
			return fmt.Errorf("wasm: export %s: a tool exports %s and optionally %s()", f.Name, funcHandle, funcMetadata)
		}
	}

	if t.handle == nil {
		return fmt.Errorf("wasm: the world does not export %s", funcHandle)
	}
	if t.Description = t.handle.Docs; t.Description == "" {
		t.Description = doc.World.Docs
	}
	var err error
	if t.InputSchema, err = t.handle.InputSchema(); err != nil {
		return err
	}
	if t.OutputSchema, err = t.handle.OutputSchema(); err != nil {
		return err
	}

	for _, doc := range []json.RawMessage{t.InputSchema, t.OutputSchema} {
		if _, err := toolschema.Compile(doc); err != nil {
			return err
		}
	}

	return nil
}

// readFile reads a regular file of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name) // before opening, because opening a FIFO would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("wasm: %s is not a regular file", name)
	}

	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("wasm: %s is larger than %d bytes", name, limit)
	}

	return data, nil
}

// digest includes the lengths, so that no bytes can move between the files.
func digest(files ...[]byte) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d:", len(f))
		h.Write(f)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
