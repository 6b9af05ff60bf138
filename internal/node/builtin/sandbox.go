package builtin

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/config"
)

// TryLevels finds the firmest level that works here, and what keeps a firmer one
// from it.
func TryLevels(ctx context.Context, least sandbox.Level) (level sandbox.Level, features []sandbox.Feature) {
	whileDumpable(func() { level, features = sandbox.Check(ctx, sandbox.Options{Init: sandboxInitCommand()}, least) })
	return level, features
}

// sandboxArgs and parseSandboxArgs carry the configuration to the agent's process.
func sandboxArgs(c *config.Config, level sandbox.Level) (args []string) {
	for _, f := range c.Sandbox.FetchFrom {
		args = append(args, "-fetch-from", f)
	}
	for _, n := range c.Sandbox.OpenedNetworks {
		args = append(args, "-opened-network", n)
	}
	return append(args, "-level", string(level), "-ca-file", c.Path(c.Sandbox.CAFile), "-network-mb", strconv.FormatInt(c.Sandbox.FullNetworkMB, 10))
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
