package builtin

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	agenttext "github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/internal/config"
)

// TestSandboxArgs: what the configuration says of the sandbox arrives in its
// agent's process.
func TestSandboxArgs(t *testing.T) {
	c := config.In("/node")
	c.Sandbox = config.Sandbox{
		FetchFrom: []string{"example.com", "*"}, CAFile: "keys/ca.pem", FullNetworkMB: 3, OpenedNetworks: []string{"10.1.0.0/16", "fd00::/8"},
	}
	got, err := parseSandboxArgs(append(sandboxArgs(c, ""), "-images", "/images"))
	if err != nil {
		t.Fatal(err)
	}
	opened := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	if !slices.Equal(got.FetchFrom, c.Sandbox.FetchFrom) || got.CAFile != "/node/keys/ca.pem" || got.Network.Bytes != 3<<20 || !slices.Equal(got.Network.Opened, opened) {
		t.Errorf("%+v", got)
	}
	if got, err := parseSandboxArgs(sandboxArgs((&config.Config{}), "")); err != nil || got.Network.Bytes != 0 || got.CAFile != "" || got.Network.Opened != nil {
		t.Errorf("nothing set: %+v, %v", got, err)
	}
	if _, err := parseSandboxArgs([]string{"-opened-network", "10.0.0.1"}); err == nil {
		t.Error("an address is no network")
	}
}

// TestModelTime: an agent that thinks may wait for its model longer than for a tool.
func TestModelTime(t *testing.T) {
	c := &config.Config{}
	c.Model.BaseURL = "http://127.0.0.1:1/v1"
	specs, err := BuiltIn(c, "")
	if err != nil {
		t.Fatal(err)
	}
	if text := specs[len(specs)-1]; text.ID != agenttext.ID || text.Limits.CallTimeout < 5*time.Minute {
		t.Errorf("%s has %s", text.ID, text.Limits.CallTimeout)
	}
}
