package cli

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/testclass"
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

// TestOffersThatCannotBeConfined: what needs the sandbox is withdrawn where it
// does not work, and what does not need it is sold.
func TestOffersThatCannotBeConfined(t *testing.T) {
	needsHiding(t, "--mount")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/unconfined.txtar"}})
}

// TestLevelsAreNamed: a buyer knows before and after a job how firmly it is confined.
func TestLevelsAreNamed(t *testing.T) {
	needsHiding(t, "--mount")
	needsHiding(t, "--user", "--map-root-user", "--mount")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/levels.txtar"}})
}

// needsHiding needs what takes a program's control groups from it.
func needsHiding(t *testing.T, namespaces ...string) {
	t.Helper()
	hidden := exec.Command("unshare", append(namespaces, "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup")...)
	if out, err := hidden.CombinedOutput(); err != nil {
		testclass.Unavailable(t, fmt.Sprintf("control groups cannot be hidden from a program here: %v: %s", err, out))
	}
}
