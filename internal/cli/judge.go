package cli

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer/panel"
)

// judgeConfig names who judges results: an agent of the node's organism that
// thinks, so that every question to it is a message of the pipeline, in a thread and
// in the journal of its profile.
type judgeConfig struct {
	Profile  string `yaml:"profile"`
	Listener string `yaml:"listener"`
}

func (c *config) checkJudge() *configError {
	j := c.Buyer.Judge
	switch {
	case j == judgeConfig{}:
		return nil
	case j.Profile == "" || j.Listener == "":
		return &configError{"$.buyer.judge", "needs a profile and a listener of the organism"}
	case c.Organism == "":
		return &configError{"$.buyer.judge", "needs an organism: the file that has the judge's listener"}
	}
	return nil
}

// judge asks the running node's organism; nil where none is configured.
func (c *config) judge() func(ctx context.Context, question string) (string, error) {
	j := c.Buyer.Judge
	if j.Listener == "" {
		return nil
	}
	return func(ctx context.Context, question string) (string, error) {
		node, err := dialNode(ctx, c)
		if err != nil {
			return "", err
		}
		out, err := node.Ask(ctx, host.AskRequest{Profile: j.Profile, Listener: j.Listener, Text: question}, func(host.CallEvent) {})
		if err != nil {
			return "", err
		}
		var answer struct{ Text *string }
		if err := json.Unmarshal(out, &answer); err != nil || answer.Text == nil {
			return "", errors.New("it is no agent that thinks: its answer has no text")
		}
		return *answer.Text, nil
	}
}

// judgeReady says, before anybody is asked for anything, what the judge lacks.
func (c *config) judgeReady(ctx context.Context) error {
	if c.judge() == nil {
		return usage("name an agent that thinks under buyer.judge: docs/build-agents/thinking-agents.md; --adjudicate merge needs none", "%w", panel.ErrNoJudge)
	}
	_, err := dialNode(ctx, c)
	return err
}
