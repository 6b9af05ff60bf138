package main

import (
	"fmt"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/schemas"
)

type agentsCmd struct {
	List agentsListCmd `cmd:"" help:"List the built-in agents and what they run."`
}

type agentsListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists the agents a provider starts.
func (c agentsListCmd) Run(s *streams) error {
	if c.JSON {
		return printJSON(s.out, []map[string]any{{
			"agent_id": agentsandbox.ID, "version": agentsandbox.Version,
			"tools": []string{agentsandbox.ID + "/" + agentsandbox.Tool}, "job_types": []schemas.ID{schemas.SandboxRun},
		}})
	}
	_, err := fmt.Fprintf(s.out, "%s %s\n  tool %s/%s runs %s\n", agentsandbox.ID, agentsandbox.Version, agentsandbox.ID, agentsandbox.Tool, schemas.SandboxRun)
	return err
}
