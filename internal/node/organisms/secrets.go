package organisms

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// maxTold bounds the secrets that are looked for in what agents log.
const maxTold = 256

// Told are the last secrets that agents were given: an agent may write to its
// log what it likes, and the log is kept.
type Told struct {
	mu      sync.Mutex
	secrets []string
}

func (t *Told) add(secrets []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range secrets {
		if !slices.Contains(t.secrets, s) {
			t.secrets = append(t.secrets, s)
		}
	}
	t.secrets = t.secrets[max(0, len(t.secrets)-maxTold):]
}

// Masking takes them out of log lines.
func (t *Told) Masking(write func(supervisor.LogLine)) func(supervisor.LogLine) {
	return func(line supervisor.LogLine) {
		t.mu.Lock()
		for _, s := range t.secrets {
			line.Text = strings.ReplaceAll(line.Text, s, pipeline.SecretMask)
		}
		t.mu.Unlock()
		write(line)
	}
}

// TellingSupervisor notes what secrets a call tells its agent.
type TellingSupervisor struct {
	*supervisor.Supervisor
	Told *Told
}

// Call is the supervisor's, for a message of the pipeline.
func (s TellingSupervisor) Call(ctx context.Context, c supervisor.Call) (supervisor.Result, error) {
	s.Told.add(pipeline.CallFrom(ctx).Secrets())
	return s.Supervisor.Call(ctx, c)
}

// secrets finds those of a slot by the schema that the agent registered last. An
// input without one has nobody to go to, and nothing of it is kept.
func (o *OperatorCalls) secrets(slot string, output bool) pipeline.Marked {
	return func(doc []byte, replace func([]byte) ([]byte, error)) ([]byte, error) {
		schema, ok := o.schema(slot, output)
		switch {
		case !ok:
			return toolschema.MemberSecrets(doc, replace)
		case len(schema) == 0:
			return doc, nil
		}

		s, err := toolschema.Compile(schema)
		if err != nil {
			return nil, err
		}
		return s.Secrets(doc, replace)
	}
}

func (o *OperatorCalls) schema(slot string, output bool) (schema json.RawMessage, ok bool) {
	agent, name, _ := wire.ToolID(slot).Split()
	tools, err := o.sup.Tools(agent)
	i := slices.IndexFunc(tools, func(t supervisor.ToolInfo) bool { return t.Name == name })
	switch {
	case err != nil || i < 0:
		return nil, false
	case output:
		return tools[i].OutputSchema, true
	}
	return tools[i].InputSchema, true
}
