package job

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestCodesAreAll: whoever counts by code knows each from the start.
func TestCodesAreAll(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "([a-z_]+)"$`).FindAllStringSubmatch(string(source), -1)
	codes := Codes()
	if len(named) == 0 || len(named) != len(codes) {
		t.Errorf("%d codes are named, %d listed", len(named), len(codes))
	}
	for _, m := range named {
		if !slices.Contains(codes, Code(m[1])) {
			t.Errorf("%s is not listed", m[1])
		}
	}
}
