package cli

import (
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c versionCmd) Run(s *app.Streams) error {
	if c.JSON {
		return app.PrintJSON(s.Out, map[string]string{"version": s.Version, "message_schema": message.Version, "control_pack": message.ControlPack})
	}
	_, err := fmt.Fprintf(s.Out, "lightwork %s\nmessages %s (%s)\n", s.Version, message.Version, message.ControlPack)
	return err
}
