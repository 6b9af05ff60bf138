package contract

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
)

// roleEnv makes this test binary play an agent.
const roleEnv = "LIGHTWORK_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(playRole(role))
	}
	goleak.VerifyTestMain(m)
}

// roleAgent is this test binary playing role.
func roleAgent(t *testing.T, role string) Agent {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Agent{
		ID: reference.ID, Version: reference.Version, Command: []string{exe},
		Dir: t.TempDir(), Env: []string{roleEnv + "=" + role},
	}
}
