// Package node wires a node of this machine: a provider with its agents, a buyer, a
// relay. A command, a page or a program that wants something of a node asks here, and
// knows no database and no wallet.
package node

import (
	"context"
	"log/slog"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
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
