package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fuzzer is the head of a fuzz test and what is before its f.Fuzz.
var fuzzer = regexp.MustCompile(`(?ms)^func (Fuzz\w+)\(f \*testing\.F\) \{\n(.*?)^}`)

// TestFuzzersHaveSeeds: go test plays the seeds of a fuzz test and nothing else,
// so one without seeds tests nothing there. A folder of seeds has its fuzz test.
func TestFuzzersHaveSeeds(t *testing.T) {
	folders, seeded := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return filepath.SkipDir
		case d.IsDir() && strings.HasSuffix(filepath.Dir(path), "testdata/fuzz"):
			folders[path] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range fuzzer.FindAllStringSubmatch(string(text), -1) {
				seeds, _, _ := strings.Cut(m[2], "f.Fuzz(")
				folder := filepath.Join(filepath.Dir(path), "testdata/fuzz", m[1])
				seeded[folder] = true
				if files, _ := os.ReadDir(folder); len(files) == 0 && !strings.Contains(seeds, "f.Add(") && !strings.Contains(seeds, "(f") {
					t.Errorf("%s in %s has no seeds", m[1], path)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range folders {
		if !seeded[folder] {
			t.Errorf("%s holds seeds of a fuzz test that is gone", folder)
		}
	}
	if len(seeded) == 0 {
		t.Error("no fuzz test is found")
	}
}
