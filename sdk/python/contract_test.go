package python_test

import (
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/contract"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/interop/outside"
)

// TestRefusalIsOneLine: no trace where the node refuses the agent.
func TestRefusalIsOneLine(t *testing.T) {
	script, err := filepath.Abs("reference/reference_agent.py")
	if err != nil {
		t.Fatal(err)
	}
	said, status := outside.Refused(t, t.TempDir(), interpreter(t), "-B", script)
	if status != 1 || said != "lightwork agent: protocol.unauthorized: the token was used before" {
		t.Errorf("status %d, said %q", status, said)
	}
}

// TestContract puts the reference agent through the checks that any agent of
// the protocol must pass.
func TestContract(t *testing.T) {
	requirements.Covers(t, "OSX-16", "OSX-17")
	script, err := filepath.Abs("reference/reference_agent.py")
	if err != nil {
		t.Fatal(err)
	}
	report, err := contract.Run(t.Context(), contract.Agent{
		ID: reference.ID, Version: reference.Version, Dir: t.TempDir(),
		Command: []string{interpreter(t), "-B", script},
	}, contract.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != contract.Passed {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
}
