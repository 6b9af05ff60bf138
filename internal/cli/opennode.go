package cli

import (
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// openNode reads the configuration that the flags name.
func openNode(s *app.Streams, g *app.Globals) (*node, error) {
	return loadNode(g.Config, s.Version, s.Log)
}
