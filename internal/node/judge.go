package node

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
)

// judgeOf asks the running node's organism; nil where none is configured.
func judgeOf(c *Node) func(ctx context.Context, question string) (string, error) {
	j := c.Buyer.Judge
	if j.Listener == "" {
		return nil
	}

	return func(ctx context.Context, question string) (string, error) {
		node, err := AgentsOf(c).Dial(ctx)
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
func judgeReady(ctx context.Context, c *Node) error {
	if judgeOf(c) == nil {
		return advice.Usage("name an agent that thinks under buyer.judge: docs/build-agents/thinking-agents.md; "+advice.MergeResults+" needs none", "%w", panel.ErrNoJudge)
	}
	_, err := AgentsOf(c).Dial(ctx)
	return err
}
