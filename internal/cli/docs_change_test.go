package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFirstChange walks docs/develop/first-change.md on a copy: the test that it shows
// fails, passes with the change, and the packages of its commands are there.
func TestFirstChange(t *testing.T) {
	text, err := os.ReadFile("../../docs/develop/first-change.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		t.Helper()
		m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
		if m == nil {
			t.Fatalf("the page has no block of %s", language)
		}
		return string(m[1])
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(root, "provider", "internal", "admission")

	// A copy that only this go command sees.
	dir := t.TempDir()
	overlay := map[string]string{}
	put := func(file, text string) {
		t.Helper()
		copied := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[file] = copied
	}
	run := func() (string, error) {
		t.Helper()
		doc, err := json.Marshal(map[string]any{"Replace": overlay})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "overlay.json")
		if err := os.WriteFile(name, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("go", "test", "-overlay", name, "-tags", "libsecp256k1", "./provider/internal/admission")
		command.Dir = root
		out, err := command.CombinedOutput()
		return string(out), err
	}

	put(filepath.Join(room, "limits_test.go"), block("go"))
	if out, err := run(); err == nil || strings.Count(out, "limits_test.go:") != 2 || !strings.Contains(out, "FAIL: TestOneBuyersShare") {
		t.Errorf("without the change, want two failures: %v\n%s", err, out)
	}

	was, err := os.ReadFile(filepath.Join(room, "limits.go"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := "", ""
	for line := range strings.Lines(block("diff")) {
		after += line[1:]
		if line[0] == ' ' {
			before += line[1:]
		}
	}
	if strings.Count(string(was), before) != 1 {
		t.Fatalf("limits.go has no place for\n%s", after)
	}
	put(filepath.Join(room, "limits.go"), strings.Replace(string(was), before, after, 1))
	if out, err := run(); err != nil {
		t.Errorf("with the change: %v\n%s", err, out)
	}

	commands := regexp.MustCompile(`(?m)^go (?:test|vet) .*$`).FindAllString(string(text), -1)
	if len(commands) < 4 {
		t.Errorf("only %d commands are found", len(commands))
	}
	for _, command := range commands {
		for _, pkg := range regexp.MustCompile(`\./\S+`).FindAllString(command, -1) {
			if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(pkg, "/..."))); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}
