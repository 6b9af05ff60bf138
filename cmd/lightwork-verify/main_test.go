package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/receipts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lightwork-verify": main})
}

// Each script runs the program on bundles made from the published vectors:
// unpack NAME [DIR] writes one as a folder, and its key changes as
// DIR.keys; pack NAME FILE as an archive.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			pins := loadVector("valid").Pins
			env.Setenv("PROVIDER", pins.Provider)
			env.Setenv("BUYER", pins.Buyer)
			env.Setenv("PAYEE", pins.Payee)
			env.Setenv("OLD", loadVector("keys_rotated").Pins.Provider)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"unpack": func(ts *testscript.TestScript, _ bool, args []string) {
				for name, data := range vectorFiles(args[0]) {
					file := ts.MkAbs(filepath.Join(args[1], name))
					ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
					ts.Check(os.WriteFile(file, data, 0o644))
				}
				if keys := loadVector(args[0]).Pins.Keys; keys != "" {
					ts.Check(os.WriteFile(ts.MkAbs(args[1]+".keys"), []byte(keys), 0o644))
				}
			},
			"pack": func(ts *testscript.TestScript, _ bool, args []string) {
				dir := os.DirFS(ts.MkAbs(args[0]))
				bundle, err := receipts.ReadBundle(dir, receipts.Limits{})
				ts.Check(err)
				var out bytes.Buffer
				ts.Check(bundle.WriteTar(&out))
				ts.Check(os.WriteFile(ts.MkAbs(args[1]), out.Bytes(), 0o644))
			},
		},
	})
}

type vector struct {
	Base   string            `json:"base"`
	Files  map[string]string `json:"files"`
	Remove []string          `json:"remove"`
	Pins   struct {
		Provider string `json:"provider"`
		Buyer    string `json:"buyer"`
		Payee    string `json:"payee"`
		Keys     string `json:"keys"`
	} `json:"pins"`
}

// vectorDir is absolute: scripts run elsewhere.
var vectorDir = func() string {
	dir, err := filepath.Abs("../../receipts/testdata/vectors")
	if err != nil {
		panic(err)
	}
	return dir
}()

func loadVector(name string) vector {
	var v vector
	doc, err := os.ReadFile(filepath.Join(vectorDir, name+".json"))
	if err == nil {
		err = json.Unmarshal(doc, &v)
	}
	if err != nil {
		panic(err)
	}
	return v
}

func vectorFiles(name string) map[string][]byte {
	files := map[string][]byte{}
	v := loadVector(name)
	if v.Base != "" {
		files = vectorFiles(v.Base)
	}
	for file, text := range v.Files {
		files[file] = []byte(text)
	}
	for _, file := range v.Remove {
		delete(files, file)
	}
	return files
}

// The verifier must work where there is nothing to talk to, and must not be
// able to talk if there is.
func TestLinksNoNetwork(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/lightwork-market/lightwork/receipts") {
		t.Fatal("go list shows something else")
	}
	for _, forbidden := range []string{"net", "net/http", "os/exec", "database/sql", "crypto/tls", "github.com/nbd-wtf/go-nostr", "github.com/google/uuid"} {
		if slices.Contains(deps, forbidden) {
			t.Errorf("links %s", forbidden)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[2Jb\u202ec\x7fd\ne\ufffd"); got != "a?[2Jb?c?d\ne?" {
		t.Errorf("%q", got)
	}
}

// TestJSONSteersNoTerminal: names that somebody else chose are shown as well, and mean
// what they did to the program that reads the report.
func TestJSONSteersNoTerminal(t *testing.T) {
	shop, name := t.TempDir(), "a\u009b2J\x7f\u202e.tar"
	if err := os.WriteFile(filepath.Join(shop, name), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"--all", "--json", shop}, nil, &out, &errs); code != receipts.ExitUnusable {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if strings.ContainsAny(out.String(), "\u009b\x7f\u202e") {
		t.Errorf("shown as it is: %q", out.String())
	}
	var first graded
	if err := json.NewDecoder(&out).Decode(&first); err != nil || first.Bundle != name {
		t.Errorf("the bundle is %q (%v)", first.Bundle, err)
	}
}
