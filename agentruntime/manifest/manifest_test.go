package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// fields are a good manifest; a case changes one of them.
func fields() map[string]any {
	return map[string]any{
		"id": "com.example.words", "name": "Words", "version": "1.2.0", "description": "Counts words.",
		"source":      map[string]any{"git_url": "https://git.example.com/words"},
		"entrypoint":  map[string]any{"type": "command", "value": "python3 words.py --fast"},
		"permissions": []string{"filesystem:read:/srv/texts", " network:egress:api.example.com "}, "capabilities": []string{"tools"},
		"keywords": []string{"ignored"},
	}
}

func encode(t testing.TB, f map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParse(t *testing.T) {
	requirements.Covers(t, "OSX-4", "OSX-6")
	raw := encode(t, fields())
	m, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Command(), "|"); got != "python3|words.py|--fast" {
		t.Errorf("command %s", got)
	}
	sum := sha256.Sum256(raw)
	if m.Hash != hex.EncodeToString(sum[:]) {
		t.Error("the hash is not that of the bytes")
	}
	sum = sha256.Sum256([]byte(`["filesystem:read:/srv/texts","network:egress:api.example.com"]`))
	if m.PermissionsHash != hex.EncodeToString(sum[:]) {
		t.Error("the permissions hash is not that of the trimmed array")
	}
	if other, err := Parse(append(raw, '\n')); err != nil || other.Hash == m.Hash || other.PermissionsHash != m.PermissionsHash {
		t.Errorf("a further byte must change the hash of the file alone: %v", err)
	}
	legacy := fields()
	legacy["agent_id"] = legacy["id"]
	delete(legacy, "id")
	if m, err := Parse(encode(t, legacy)); err != nil || m.ID != "com.example.words" {
		t.Errorf("legacy id: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	requirements.Covers(t, "OSX-5", "OSX-7")
	long := strings.Repeat("x", 100_000)
	many := make([]string, 501)
	for i := range many {
		many[i] = "p"
	}
	for name, tt := range map[string]struct {
		field string
		value any // nil removes the field
		code  string
	}{
		"no id":                    {"id", nil, CodeMissingField},
		"no name":                  {"name", nil, CodeMissingField},
		"no version":               {"version", nil, CodeMissingField},
		"no description":           {"description", nil, CodeMissingField},
		"no source":                {"source", nil, CodeMissingField},
		"no entrypoint":            {"entrypoint", nil, CodeMissingField},
		"no permissions":           {"permissions", nil, CodeMissingField},
		"no capabilities":          {"capabilities", nil, CodeMissingField},
		"source without address":   {"source", map[string]any{}, CodeMissingField},
		"id with a slash":          {"id", "a/b", CodeInvalidField},
		"id with a dot first":      {"id", ".a", CodeInvalidField},
		"id too long":              {"id", long[:201], CodeInvalidField},
		"name of another type":     {"name", 7, CodeInvalidField},
		"name too long":            {"name", long[:201], CodeInvalidField},
		"version":                  {"version", "one", CodeInvalidField},
		"version too long":         {"version", "1.0.0-" + long[:100], CodeInvalidField},
		"description too long":     {"description", long[:2001], CodeInvalidField},
		"too many permissions":     {"permissions", many, CodeInvalidField},
		"permission too long":      {"permissions", []string{long[:301]}, CodeInvalidField},
		"permission of two lines":  {"permissions", []string{"a\nb"}, CodeInvalidField},
		"permission with a zero":   {"permissions", []string{"a\x00b"}, CodeInvalidField},
		"empty permission":         {"permissions", []string{" "}, CodeInvalidField},
		"negative limit":           {"execution_limits", map[string]any{"memory_mb": -1}, CodeInvalidField},
		"entrypoint type":          {"entrypoint", map[string]any{"type": "shell", "value": "x"}, CodeInvalidEntrypoint},
		"entrypoint not ours":      {"entrypoint", map[string]any{"type": "mix_task", "value": "x"}, CodeInvalidEntrypoint},
		"entrypoint empty":         {"entrypoint", map[string]any{"type": "command", "value": " "}, CodeInvalidEntrypoint},
		"entrypoint of two lines":  {"entrypoint", map[string]any{"type": "command", "value": "a\nb"}, CodeInvalidEntrypoint},
		"manifest of the future":   {"manifest_version", 2, CodeInvalidField},
		"larger than any manifest": {"keywords", []string{long, long, long}, CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			f := maps.Clone(fields())
			if f[tt.field] = tt.value; tt.value == nil {
				delete(f, tt.field)
			}
			_, err := Parse(encode(t, f))
			var bad *Error
			if !errors.As(err, &bad) || bad.Code != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
	for name, tt := range map[string]struct{ raw, code string }{
		"empty":           {" \n", CodeEmpty},
		"no JSON":         {"{", CodeInvalidJSON},
		"an array":        {"[]", CodeInvalidShape},
		"null":            {"null", CodeInvalidShape},
		"two values":      {"{}{}", CodeInvalidJSON},
		"a key twice":     {`{"id":"a","id":"b"}`, CodeInvalidJSON},
		"invalid UTF-8":   {"{\"id\":\"\xff\"}", CodeInvalidJSON},
		"another casing":  {strings.Replace(string(encode(t, fields())), `"id"`, `"ID"`, 1), CodeMissingField},
		"only null":       {`{"id":null}`, CodeMissingField},
		"deeply nested":   {strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), CodeInvalidJSON},
		"a number for it": {"7", CodeInvalidShape},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tt.raw))
			var bad *Error
			if !errors.As(err, &bad) || bad.Code != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, fields()))
	f.Add([]byte(`{"id":"a"}`))
	f.Add([]byte(`{"id":{},"permissions":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(raw)
		var bad *Error
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("untyped error %v", err)
		}
		if err == nil && (m.ID == "" || len(m.Command()) == 0 || m.Hash == "") {
			t.Errorf("accepted %+v", m)
		}
	})
}

func TestReadTakesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	code := func() string {
		_, err := Read(path)
		var bad *Error
		if !errors.As(err, &bad) {
			return "none"
		}
		return bad.Code
	}
	if got := code(); got != CodeStatFailed {
		t.Errorf("missing: %s", got)
	}
	real := filepath.Join(dir, "real.json")
	if err := os.WriteFile(real, encode(t, fields()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if got := code(); got != CodeNotAFile {
		t.Errorf("link: %s", got)
	}
	os.Remove(path)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := code(); got != CodeNotAFile {
		t.Errorf("pipe: %s", got)
	}
	os.Remove(path)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := code(); got != CodeNotAFile {
		t.Errorf("folder: %s", got)
	}
	if _, err := Read(real); err == nil || !strings.Contains(err.Error(), CodeUnexpectedFilename) {
		t.Errorf("another name: %v", err)
	}
}

// TestOtherManifests: of the fields of an evidence system's manifest, the node
// acts on those that its own has too, whatever the rest says; and the agents of
// that system's examples can be called what they are called there.
func TestOtherManifests(t *testing.T) {
	requirements.Covers(t, "YEX-1")
	for _, id := range []string{"one-brain", "macro-analyst", "data-connector-wb", "gap-ticket-creator", "admin-monitor"} {
		f := fields()
		maps.Copy(f, map[string]any{
			"id": id, "name": "An agent", "version": "2.0.0", "description": "Answers.", "capabilities": []string{"analysis", "gaps"},
			"category": "core", "promptFile": "p.md", "dependencies": []string{"one-brain"}, "policies": []string{"R0"}, "evalSuite": "e.json", "tier": "gold",
		})
		m, err := Parse(encode(t, f))
		if err != nil {
			t.Fatal(err)
		}
		if m.ID != id || m.Name != "An agent" || m.Version != "2.0.0" || m.Description != "Answers." || len(m.Capabilities) != 2 {
			t.Errorf("read %+v", m)
		}
	}
}
