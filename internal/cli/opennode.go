package cli

import (
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/node"
)

// openNode reads the configuration that the flags name.
func openNode(s *app.Streams, g *app.Globals) (*node.Node, error) {
	return node.Load(g.Config, s.Version, s.Log)
}
