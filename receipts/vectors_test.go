package receipts_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

var update = flag.Bool("update", false, "write the vectors of testdata/vectors anew")

const vectorDir = "testdata/vectors"

// vector is one file of testdata/vectors; docs/protocol/receipt.md describes it for
// other implementations. Files replace or add to those of Base; Remove takes
// some away.
type vector struct {
	About    string            `json:"about"`
	Base     string            `json:"base,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
	Remove   []string          `json:"remove,omitempty"`
	Pins     vectorPins        `json:"pins"`
	ExitCode int               `json:"exit_code"`
	// NotProved names the state of every claim that is not proved.
	NotProved states `json:"not_proved"`
	// Because has words that the reason of a claim that is not proved has in it, whoever
	// verifies.
	Because map[string]string `json:"because,omitempty"`
}

type vectorPins struct {
	Provider string           `json:"provider,omitempty"`
	Buyer    string           `json:"buyer,omitempty"`
	Payee    string           `json:"payee,omitempty"`
	Network  payments.Network `json:"network,omitempty"`
	Also     []string         `json:"also,omitempty"`
	Keys     string           `json:"keys,omitempty"` // the file of key changes
}

func generate(t *testing.T) map[string][]byte {
	t.Helper()
	base := map[string]string{}
	out := map[string][]byte{}
	for _, s := range slices.Concat(scenarios(), forgedFields(), recombined()) {
		files := map[string]string{}
		bundle := s.recipe.make().bundle
		for name, data := range bundle.Files() {
			if !utf8.Valid(data) {
				t.Fatalf("%s: %s is no text", s.name, name)
			}
			files[name] = string(data)
		}
		p := s.allPins()
		v := vector{
			About: s.about, ExitCode: exitFor(s.want), NotProved: s.want, Because: s.because,
			Pins: vectorPins{p.Provider, p.Buyer, p.Payee, p.Network, p.Also, keyLines(s.keys)},
		}
		if s.measured {
			v.ExitCode, v.NotProved = measure(bundle, p)
			if v.ExitCode != receipts.ExitFailed && v.ExitCode != receipts.ExitUnusable {
				t.Errorf("%s: exit %d: a forged field passes, whoever holds the keys", s.name, v.ExitCode)
			}
		}
		if v.NotProved == nil {
			v.NotProved = states{}
		}
		if s.name == "valid" {
			base, v.Files = files, files
		} else {
			v.Base = "valid"
			v.Files, v.Remove = difference(base, files)
		}
		out[s.name+".json"] = encodeVector(t, v)
	}
	return out
}

// measure is what Verify says; of an unusable bundle it judges no claim.
func measure(b *receipts.Bundle, p receipts.Pins) (exit int, notProved states) {
	report := receipts.Verify(b, p)
	notProved = states{}
	for _, c := range report.Claims {
		if c.State != receipts.Proved && report.Unusable == "" {
			notProved[c.Name] = c.State
		}
	}
	return report.ExitCode(), notProved
}

func difference(base, files map[string]string) (changed map[string]string, removed []string) {
	changed = map[string]string{}
	for name, text := range files {
		if old, ok := base[name]; !ok || old != text {
			changed[name] = text
		}
	}
	for name := range base {
		if _, ok := files[name]; !ok {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return changed, removed
}

func encodeVector(t *testing.T, v vector) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The vectors on disk are those that the scenarios give now.
func TestVectorsAreCurrent(t *testing.T) {
	want := generate(t)
	if *update {
		if err := os.RemoveAll(vectorDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(vectorDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range want {
			if err := os.WriteFile(filepath.Join(vectorDir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := vectorFiles(t)
	if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Fatalf("files %v, want %v: run go test ./receipts -run Vectors -update", names, got)
	}
	for _, name := range names {
		if got := must(os.ReadFile(filepath.Join(vectorDir, name))); !bytes.Equal(got, want[name]) {
			t.Errorf("%s is out of date: run go test ./receipts -run Vectors -update", name)
		}
	}
}

func vectorFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(vectorDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func loadVector(t *testing.T, name string) vector {
	t.Helper()
	var v vector
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(vectorDir, name))), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// vectorBundle is a vector read from disk, and the pins it is for.
func vectorBundle(t *testing.T, name string) (*receipts.Bundle, receipts.Pins) {
	t.Helper()
	v := loadVector(t, name)
	files := map[string][]byte{}
	for _, layer := range []string{v.Base + ".json", name} {
		if layer == ".json" {
			continue
		}
		for file, text := range loadVector(t, layer).Files {
			files[file] = []byte(text)
		}
	}
	for _, file := range v.Remove {
		delete(files, file)
	}
	bundle, err := reload(t, files)
	if err != nil {
		t.Fatal(err)
	}
	pins := receipts.Pins{
		Provider: v.Pins.Provider, Buyer: v.Pins.Buyer, Payee: v.Pins.Payee, Network: v.Pins.Network, Required: receipts.ClaimNames(),
		Also: v.Pins.Also,
	}
	if v.Pins.Keys != "" {
		if pins.Keys, err = receipts.ReadKeyHistory([]byte(v.Pins.Keys)); err != nil {
			t.Fatal(err)
		}
	}
	return bundle, pins
}

// What is on disk, read as any implementation would, is graded as it says.
func TestVectors(t *testing.T) {
	for _, name := range vectorFiles(t) {
		t.Run(strings.TrimSuffix(name, ".json"), func(t *testing.T) {
			v := loadVector(t, name)
			bundle, pins := vectorBundle(t, name)
			report := receipts.Verify(bundle, pins)
			if v.ExitCode != receipts.ExitUnusable {
				wantStates(t, report, v.NotProved)
			}
			for claim, words := range v.Because {
				if c := report.Claim(claim); c.State == receipts.Proved || !strings.Contains(c.Reason, words) {
					t.Errorf("%s is %s: %s, want %q in it", claim, c.State, c.Reason, words)
				}
			}
			if report.ExitCode() != v.ExitCode {
				t.Errorf("exit %d, want %d", report.ExitCode(), v.ExitCode)
			}
		})
	}
}
