package typescript_test

import (
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/contract"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/interop/outside"
)

// refusalIsOneLine: no trace where the node refuses the agent.
func refusalIsOneLine(t *testing.T, root string) {
	dir := filepath.Join(root, "reference")
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	said, status := outside.Refused(t, dir, m.Command()...)
	if status != 1 || said != "lightwork agent: refused by the node: protocol.unauthorized: the token was used before" {
		t.Errorf("status %d, said %q", status, said)
	}
}

// passesContract puts the reference agent through the checks that any agent of
// the protocol must pass.
func passesContract(t *testing.T, root string) {
	requirements.Covers(t, "OSX-16", "OSX-17")
	dir := filepath.Join(root, "reference")
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	report, err := contract.Run(t.Context(), contract.Agent{ID: m.ID, Version: m.Version, Dir: dir, Command: m.Command()}, contract.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != contract.Passed {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
}
