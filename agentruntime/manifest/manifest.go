// Package manifest reads opensentience.agent.json, the file that says what an
// agent is, how it is started and what it asks for, and keeps what an operator
// approved of it. Reading a manifest runs nothing of the agent's.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/hashing"
)

// FileName is how a manifest must be called.
const FileName = "opensentience.agent.json"

// Limits of a manifest (OSX-5).
const (
	MaxBytes           = 256_000
	maxNameBytes       = 200
	maxVersionBytes    = 100
	maxDescription     = 2000
	maxPermissions     = 500
	maxPermissionBytes = 300
	maxCapabilities    = 500
	maxEntrypointBytes = 4096
)

// Codes of an Error (OSX-7).
const (
	CodeUnexpectedFilename = "unexpected_filename"
	CodeNotAFile           = "not_a_file"
	CodeStatFailed         = "stat_failed"
	CodeReadFailed         = "read_failed"
	CodeTooLarge           = "manifest_too_large"
	CodeEmpty              = "empty_manifest"
	CodeInvalidJSON        = "invalid_json"
	CodeInvalidShape       = "invalid_manifest_shape"
	CodeMissingField       = "missing_field"
	CodeInvalidField       = "invalid_field"
	CodeInvalidEntrypoint  = "invalid_entrypoint"
)

// Error says what is wrong with a manifest.
type Error struct {
	Code  string // one of the Code constants
	Field string // "" if it is the whole file
	Why   string
}

func (e *Error) Error() string {
	what := "manifest: " + e.Code
	if e.Field != "" {
		what += ": " + e.Field
	}
	if e.Why != "" {
		what += ": " + e.Why
	}
	return what
}

// Entrypoint says how the agent is started. The one type that runs here is
// "command": program and arguments, separated by spaces; no shell reads it.
type Entrypoint struct {
	Type  string `json:"type"` // command, mix_task or release
	Value string `json:"value"`
}

// Source is where the agent's code comes from; nothing fetches it.
type Source struct {
	GitURL string `json:"git_url"`
	Ref    string `json:"ref,omitempty"`
}

// Limits are what the agent asks for, in the manifest's own units. Zero is the
// default of OSX-11.
type Limits struct {
	MaxToolCallDurationSecs int64 `json:"max_tool_call_duration_secs,omitempty"`
	MaxConcurrentCalls      int   `json:"max_concurrent_calls,omitempty"`
	MemoryMB                int64 `json:"memory_mb,omitempty"`
	CPUMillis               int64 `json:"cpu_millis,omitempty"` // thousandths of a core
	Processes               int64 `json:"processes,omitempty"`
	OpenFiles               int64 `json:"open_files,omitempty"`
}

// Manifest is the part of the file that the node acts on. Other fields are
// allowed, hashed and shown to nobody.
type Manifest struct {
	ManifestVersion int        `json:"manifest_version,omitempty"`
	ID              string     `json:"id"`
	Name            string     `json:"name"`
	Version         string     `json:"version"`
	Description     string     `json:"description"`
	Source          *Source    `json:"source"`
	Entrypoint      Entrypoint `json:"entrypoint"`
	Permissions     []string   `json:"permissions"`
	Capabilities    []string   `json:"capabilities"`
	ExecutionLimits Limits     `json:"execution_limits"`

	// Hash is the lower-case hex SHA-256 of the file's bytes (OSX-6).
	Hash string `json:"-"`
	// PermissionsHash is that of the JSON array of trimmed permissions, in order.
	PermissionsHash string `json:"-"`
}

// Command is the entrypoint as program and arguments.
func (m *Manifest) Command() []string { return strings.Fields(m.Entrypoint.Value) }

// Read reads and checks a manifest file. Errors are *Error.
func Read(path string) (*Manifest, error) {
	if filepath.Base(path) != FileName {
		return nil, &Error{CodeUnexpectedFilename, "", "must be called " + FileName}
	}

	// Neither a link nor a pipe may stand in for the file.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, &Error{CodeNotAFile, "", "it is a symbolic link"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{CodeStatFailed, "", "no such file"}
	case err != nil:
		return nil, &Error{CodeReadFailed, "", err.Error()}
	}

	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, &Error{CodeStatFailed, "", err.Error()}
	case !st.Mode().IsRegular():
		return nil, &Error{CodeNotAFile, "", st.Mode().Type().String()}
	}

	raw, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, &Error{CodeReadFailed, "", err.Error()}
	}
	return Parse(raw)
}

// Parse checks the bytes of a manifest. Errors are *Error.
func Parse(raw []byte) (*Manifest, error) {
	switch {
	case len(raw) > MaxBytes:
		return nil, &Error{CodeTooLarge, "", fmt.Sprintf("more than %d bytes", MaxBytes)}
	case len(strings.TrimSpace(string(raw))) == 0:
		return nil, &Error{CodeEmpty, "", ""}
	}

	if err := hashing.Check(raw); err != nil {
		return nil, &Error{CodeInvalidJSON, "", err.Error()}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, &Error{CodeInvalidShape, "", "not a JSON object"}
	}
	m := &Manifest{}
	if err := m.decode(fields); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}

	sum := sha256.Sum256(raw)
	m.Hash, m.PermissionsHash = hex.EncodeToString(sum[:]), PermissionsHash(m.Permissions)
	return m, nil
}

// PermissionsHash is the lower-case hex SHA-256 of the compact JSON array of
// the trimmed permissions, in order.
func PermissionsHash(permissions []string) string {
	names := make([]string, len(permissions))
	for i, p := range permissions {
		names[i] = strings.TrimSpace(p)
	}
	raw, _ := json.Marshal(names) // strings always marshal
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// decode takes the fields that the node knows, by their exact names.
func (m *Manifest) decode(fields map[string]json.RawMessage) error {
	if fields["id"] == nil {
		fields["id"] = fields["agent_id"] // the legacy name
	}

	for _, f := range []struct {
		name     string
		into     any
		required bool
	}{
		{"id", &m.ID, true},
		{"name", &m.Name, true},
		{"version", &m.Version, true},
		{"description", &m.Description, true},
		{"source", &m.Source, true},
		{"entrypoint", &m.Entrypoint, true},
		{"permissions", &m.Permissions, true},
		{"capabilities", &m.Capabilities, true},
		{"manifest_version", &m.ManifestVersion, false},
		{"execution_limits", &m.ExecutionLimits, false},
	} {
		raw := fields[f.name]
		if raw == nil || string(raw) == "null" {
			if f.required {
				return &Error{CodeMissingField, f.name, ""}
			}
			continue
		}
		if err := json.Unmarshal(raw, f.into); err != nil {
			return &Error{CodeInvalidField, f.name, "wrong type"}
		}
	}

	return nil
}

func (m *Manifest) check() error {
	bad := func(field, why string) error { return &Error{CodeInvalidField, field, why} }
	switch {
	case m.ManifestVersion != 0 && m.ManifestVersion != 1:
		return bad("manifest_version", "must be 1")
	case !wire.ValidAgentID(m.ID):
		return bad("id", "letters, digits, dots, dashes and underscores, at most 200 bytes")
	case m.Name == "" || len(m.Name) > maxNameBytes:
		return bad("name", "1 to 200 bytes")
	case len(m.Version) > maxVersionBytes || !wire.ValidVersion(m.Version):
		return bad("version", "must be a semantic version")
	case len(m.Description) > maxDescription:
		return bad("description", "at most 2000 bytes")
	case m.Source.GitURL == "":
		return &Error{CodeMissingField, "source.git_url", ""}
	case len(m.Permissions) > maxPermissions:
		return bad("permissions", "at most 500")
	case len(m.Capabilities) > maxCapabilities:
		return bad("capabilities", "at most 500")
	}

	for i, p := range m.Permissions {
		if len(p) > maxPermissionBytes || strings.TrimSpace(p) == "" || strings.ContainsAny(p, "\x00\r\n") {
			return bad(fmt.Sprintf("permissions[%d]", i), "1 to 300 bytes in one line")
		}
	}

	l := m.ExecutionLimits
	for _, v := range []int64{l.MaxToolCallDurationSecs, int64(l.MaxConcurrentCalls), l.MemoryMB, l.CPUMillis, l.Processes, l.OpenFiles} {
		if v < 0 || v > 1<<40 {
			return bad("execution_limits", "a limit is out of range")
		}
	}

	return m.checkEntrypoint()
}

func (m *Manifest) checkEntrypoint() error {
	e := m.Entrypoint
	bad := func(why string) error { return &Error{CodeInvalidEntrypoint, "entrypoint", why} }
	switch {
	case len(e.Value) > maxEntrypointBytes || strings.ContainsAny(e.Value, "\x00\r\n"):
		return bad("value is not one line of at most 4096 bytes")
	case strings.TrimSpace(e.Value) == "":
		return bad("value is empty")
	}

	switch e.Type {
	case "command":
		return nil
	case "mix_task", "release":
		return bad("type " + e.Type + " does not run here; wrap it in a command")
	}

	return bad("type must be command, mix_task or release")
}
