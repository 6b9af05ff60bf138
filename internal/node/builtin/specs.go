package builtin

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
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/schemas"
)

// modelTime bounds a call to the model that has no deadline of its own: as long
// as a task of an agent that thinks may take.
const modelTime = 5 * time.Minute

// BuiltIn are the agents of this program that the configuration has work for.
func BuiltIn(c *config.Config, level sandbox.Level) ([]supervisor.Spec, error) {
	needed := map[string]bool{agenttext.ID: c.Model.BaseURL != ""}
	for _, o := range c.Provider.Offers {
		if agent, _, ok := config.OwnTool(schemas.ID(o.Schema)); ok && o.Tool == "" {
			needed[agent] = true
		}
	}

	// The sandbox is always there: it is what most are here for.
	specs := []supervisor.Spec{{
		ID: agentsandbox.ID, Version: agentsandbox.Version, Tools: []string{agentsandbox.Tool},
		Command: append([]string{display.Self(), agentCommand, agentSandbox, "-images", c.ImageDir()}, sandboxArgs(c, level)...),
	}}
	if !needed[agenttext.ID] {
		return specs, nil
	}
	text := supervisor.Spec{ID: agenttext.ID, Version: agenttext.Version, Command: []string{display.Self(), agentCommand, agentText}}
	endpoint := Endpoint(c)
	text.Tools = agenttext.Tools(endpoint)
	text.Limits.CallTimeout = modelTime

	// It reads what strangers send, and needs nothing of this machine for it.
	text.Confine = host.SystemOnly(display.Self(), endpoint != nil)
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
			return nil, advice.Usage("set it for the node, or name a file under model.key_file", "the environment has no %s, which model.key_env names", name)
		}
		text.Env = append(text.Env, name+"="+key)
	}

	return append(specs, text), nil
}

// Endpoint is the configured model endpoint, nil if there is none.
func Endpoint(c *config.Config) *agenttext.EndpointConfig {
	m := c.Model
	if m.BaseURL == "" {
		return nil
	}
	return &agenttext.EndpointConfig{
		Client: model.Config{
			BaseURL: m.BaseURL, AllowHTTP: m.AllowHTTP, KeyFile: c.Path(m.KeyFile), KeyEnv: m.KeyEnv, Model: m.Name,
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
