// Package node wires a node of this machine: a provider with its agents, a buyer, a
// relay. A command, a page or a program that wants something of a node asks here, and
// knows no database and no wallet.
package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
)

// Node is a set-up of this machine: what the configuration says, and what was found
// out here.
type Node struct {
	*config.Config
	Version string // of the program
	log     *slog.Logger
	// Level is how firmly the sandbox confines jobs here; empty before the node has
	// found it out, and where it cannot.
	Level sandbox.Level
}

// New is a node of that configuration, in a program of that version.
func New(c *config.Config, version string, log *slog.Logger) *Node {
	return &Node{Config: c, Version: version, log: log}
}

// Load reads the configuration of a node.
func Load(file, version string, log *slog.Logger) (*Node, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return New(c, version, log), nil
}

// announcedLevel is how firmly jobs are confined that the built-in sandbox does;
// empty if none are on offer.
func (c *Node) announcedLevel() string {
	if !c.SellsSandbox() {
		return ""
	}
	return string(c.Level)
}

// registered are the images that jobs may name. The policy of a running
// provider fixes them.
func (c *Node) registered() ([]string, error) {
	list, err := images.List(c.ImageDir())
	if err != nil {
		return nil, err
	}
	digests := []string{}
	for _, i := range list {
		digests = append(digests, i.Digest.String())
	}
	return digests, nil
}

// findLevel finds out which level this machine can do.
func (c *Node) findLevel(ctx context.Context) sandbox.Level {
	if c.Level == "" {
		c.Level, _ = builtin.TryLevels(ctx, c.Sandbox.Least())
	}
	return c.Level
}

// fetches reports whether jobs may have a repository fetched from an address.
func (c *Node) fetches(address string) bool {
	return sandbox.CheckRemote(address, c.Sandbox.FetchFrom) == nil
}

// nodeCalls are what a node answers on its control socket, by name.
type nodeCalls = map[string]func(context.Context, json.RawMessage) (any, error)

// agentSocketDir is where the agents' sockets live: beside the node's own, or
// where an agent has another account, which cannot enter the node's folders, in
// a folder that all may pass through. Each socket is its agent's alone there too.
func agentSocketDir(data string, agents []host.Installed) string {
	another := slices.ContainsFunc(agents, func(in host.Installed) bool { return in.UID != 0 || in.GID != 0 })
	if !another || os.Geteuid() != 0 {
		return socketDir(data)
	}
	base := "/run" // root alone makes folders there
	if st, err := os.Stat(base); err != nil || !st.IsDir() {
		base = os.TempDir()
	}
	return socketDirIn(base, data)
}

// leaveSocketDir removes what agentSocketDir has outside the node's own folders,
// once no socket is left in it. The node's lock is still held: no other is about
// to use it.
func leaveSocketDir(data string, agents []host.Installed) {
	if dir := agentSocketDir(data, agents); dir != socketDir(data) {
		_ = os.Remove(dir) // refused while there is anything in it
	}
}

// socketDir is where agents' sockets live: in the data folder, or where that
// path is too long for a socket address, in a folder of its own under the
// system's temporary one.
func socketDir(data string) string {
	dir := filepath.Join(data, "run")
	const most = 90
	if abs, err := filepath.Abs(dir); err == nil && len(abs) <= most {
		return abs
	}
	return socketDirIn(os.TempDir(), dir)
}

// socketDirIn is the folder in base that stands for dir.
func socketDirIn(base, dir string) string {
	return filepath.Join(base, "lightwork-"+hashing.Bytes([]byte(dir)).Hex()[:16])
}
