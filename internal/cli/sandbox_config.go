package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
)

func (s sandboxConfig) check() *configError {
	if s.FullNetworkMB < 0 || s.FullNetworkMB > maxNetworkMB {
		return &configError{"$.sandbox.full_network_mb", fmt.Sprintf("must be 0 (refused) to %d", maxNetworkMB)}
	}
	for i, text := range s.OpenedNetworks {
		if _, err := netip.ParsePrefix(text); err != nil {
			return &configError{fmt.Sprintf("$.sandbox.opened_networks[%d]", i), "must be a network such as 10.1.0.0/16"}
		}
	}
	if s.LeastConfinement != "" {
		if _, err := sandbox.ParseLevel(s.LeastConfinement); err != nil {
			return &configError{"$.sandbox.least_confinement", err.Error()}
		}
	}
	return nil
}

// least is the weakest level that jobs run at: the firmest there is, unless the
// configuration says in so many words that less will do.
func (s sandboxConfig) least() sandbox.Level {
	return sandbox.Level(firstText(s.LeastConfinement, string(sandbox.LevelFull)))
}

// findLevel finds out which level this machine can do.
func (c *config) findLevel(ctx context.Context) sandbox.Level {
	if c.level == "" {
		c.level, _ = tryLevels(ctx, c.Sandbox.least())
	}
	return c.level
}

// tryLevels finds the firmest level that works here, and what keeps a firmer one
// from it.
func tryLevels(ctx context.Context, least sandbox.Level) (level sandbox.Level, features []sandbox.Feature) {
	whileDumpable(func() { level, features = sandbox.Check(ctx, sandbox.Options{Init: sandboxInitCommand()}, least) })
	return level, features
}

// maxNetworkMB is 1 TiB: more is a slip.
const maxNetworkMB = 1 << 20

// fetches reports whether jobs may have a repository fetched from an address.
func (c *config) fetches(address string) bool {
	return sandbox.CheckRemote(address, c.Sandbox.FetchFrom) == nil
}

// sandboxArgs and parseSandboxArgs carry the configuration to the agent's process.
func (c *config) sandboxArgs() (args []string) {
	for _, f := range c.Sandbox.FetchFrom {
		args = append(args, "-fetch-from", f)
	}
	for _, n := range c.Sandbox.OpenedNetworks {
		args = append(args, "-opened-network", n)
	}
	return append(args, "-level", string(c.level), "-ca-file", c.path(c.Sandbox.CAFile), "-network-mb", strconv.FormatInt(c.Sandbox.FullNetworkMB, 10))
}

func parseSandboxArgs(args []string) (agentsandbox.Config, error) {
	var c agentsandbox.Config
	f := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.ImageDir, "images", "", "")
	f.Func("fetch-from", "", func(s string) error { c.FetchFrom = append(c.FetchFrom, s); return nil })
	f.StringVar(&c.CAFile, "ca-file", "", "")
	f.StringVar((*string)(&c.Level), "level", "", "")
	f.Int64Var(&c.Network.Bytes, "network-mb", 0, "")
	f.Func("opened-network", "", func(s string) error {
		n, err := netip.ParsePrefix(s)
		c.Network.Opened = append(c.Network.Opened, n)
		return err
	})
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.Network.Bytes <<= 20
	if f.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return c, nil
}
