package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	agenttext "github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// ownTool is the built-in tool that does a job type.
func ownTool(id schemas.ID) (agent, tool string, ok bool) {
	switch id {
	case schemas.SandboxRun:
		return agentsandbox.ID, agentsandbox.Tool, true
	case schemas.CodeChunkAnalysis:
		return agenttext.ID, agenttext.ToolCodeChunk, true
	case schemas.RetrievalRerank:
		return agenttext.ID, agenttext.ToolRerank, true
	case schemas.Embedding:
		return agenttext.ID, agenttext.ToolEmbedding, true
	case schemas.TextGeneration:
		return agenttext.ID, agenttext.ToolGenerate, true
	}
	return "", "", false
}

// doesOther reports a built-in tool that does not do a job type.
func doesOther(tool, schemaID string) bool {
	agent, name, _ := wire.ToolID(tool).Split()
	if agent != agentsandbox.ID && agent != agenttext.ID {
		return false
	}
	ownAgent, own, _ := ownTool(schemas.ID(schemaID))
	return agent != ownAgent || name != own
}

// modelTime bounds a call to the model that has no deadline of its own: as long
// as a task of an agent that thinks may take.
const modelTime = 5 * time.Minute

// builtIn are the agents of this program that the configuration has work for.
func (c *config) builtIn() ([]supervisor.Spec, error) {
	needed := map[string]bool{agenttext.ID: c.Model.BaseURL != ""}
	for _, o := range c.Provider.Offers {
		if agent, _, ok := ownTool(schemas.ID(o.Schema)); ok && o.Tool == "" {
			needed[agent] = true
		}
	}
	// The sandbox is always there: it is what most are here for.
	specs := []supervisor.Spec{{
		ID: agentsandbox.ID, Version: agentsandbox.Version, Tools: []string{agentsandbox.Tool},
		Command: append([]string{self(), agentCommand, agentSandbox, "-images", c.imageDir()}, c.sandboxArgs()...),
	}}
	if !needed[agenttext.ID] {
		return specs, nil
	}
	text := supervisor.Spec{ID: agenttext.ID, Version: agenttext.Version, Command: []string{self(), agentCommand, agentText}}
	endpoint := c.endpoint()
	text.Tools = agenttext.Tools(endpoint)
	text.Limits.CallTimeout = modelTime
	// It reads what strangers send, and needs nothing of this machine for it.
	text.Confine = host.SystemOnly(self(), endpoint != nil)
	if endpoint == nil {
		return append(specs, text), nil
	}
	if endpoint.Client.KeyFile != "" {
		text.Confine.Read = append(text.Confine.Read, endpoint.Client.KeyFile)
	}
	text.Command = append(text.Command, textArgs(endpoint)...)
	if name := endpoint.Client.KeyEnv; name != "" {
		key, ok := os.LookupEnv(name)
		if !ok {
			return nil, usage("set it for the node, or name a file under model.key_file", "the environment has no %s, which model.key_env names", name)
		}
		text.Env = append(text.Env, name+"="+key)
	}
	return append(specs, text), nil
}

// endpoint is the configured model endpoint, nil if there is none.
func (c *config) endpoint() *agenttext.EndpointConfig {
	m := c.Model
	if m.BaseURL == "" {
		return nil
	}
	return &agenttext.EndpointConfig{
		Client: model.Config{
			BaseURL: m.BaseURL, AllowHTTP: m.AllowHTTP, KeyFile: c.path(m.KeyFile), KeyEnv: m.KeyEnv, Model: m.Name,
		},
		EmbedModel: m.Embed,
	}
}

// textArgs and parseTextArgs carry the endpoint to the agent's process; the key
// is in none of them.
func textArgs(e *agenttext.EndpointConfig) []string {
	args := []string{"-base-url", e.Client.BaseURL, "-key-file", e.Client.KeyFile, "-key-env", e.Client.KeyEnv, "-model", e.Client.Model, "-embed", e.EmbedModel}
	if e.Client.AllowHTTP {
		args = append(args, "-allow-http")
	}
	return args
}

func parseTextArgs(args []string) (*agenttext.EndpointConfig, error) {
	var e agenttext.EndpointConfig
	f := flag.NewFlagSet("text", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&e.Client.BaseURL, "base-url", "", "")
	f.StringVar(&e.Client.KeyFile, "key-file", "", "")
	f.StringVar(&e.Client.KeyEnv, "key-env", "", "")
	f.StringVar(&e.Client.Model, "model", "", "")
	f.StringVar(&e.EmbedModel, "embed", "", "")
	f.BoolVar(&e.Client.AllowHTTP, "allow-http", false, "")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if e.Client.BaseURL == "" {
		return nil, nil
	}
	return &e, nil
}
