package cli

import (
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/message"
)

// version is the program's, which Run is told.
var version = "dev"

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (c versionCmd) Run(s *streams) error {
	if c.JSON {
		return printJSON(s.out, map[string]string{"version": version, "message_schema": message.Version, "control_pack": message.ControlPack})
	}
	_, err := fmt.Fprintf(s.out, "lightwork %s\nmessages %s (%s)\n", version, message.Version, message.ControlPack)
	return err
}
