package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// isRules reports whether an example is a file of rules for Prometheus.
func isRules(e example) bool { return strings.HasPrefix(e.text, "groups:\n") }

// TestAlerts plays the alerts that the documents print in Prometheus.
func TestAlerts(t *testing.T) {
	testclass.Require(t, "prometheus")
	var rules []string
	for _, e := range allExamples(t) {
		if isRules(e) {
			rules = append(rules, e.text)
		}
	}
	if len(rules) != 1 {
		t.Fatalf("%d files of rules are printed", len(rules))
	}
	played, err := os.ReadFile("testdata/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}

	runScripts(t, testscript.Params{Files: []string{"testdata/named/alerts.txtar"}, Setup: func(e *testscript.Env) error {
		e.Setenv("PROMETHEUS", port.Reserve(t))
		if err := os.WriteFile(filepath.Join(e.WorkDir, "rules.yml"), []byte(rules[0]), 0o600); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(e.WorkDir, "alerts.yml"), played, 0o600)
	}})
}
