package node

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
)

// judge asks the running node's organism; nil where none is configured.
func (c *Node) judge() func(ctx context.Context, question string) (string, error) {
	j := c.Buyer.Judge
	if j.Listener == "" {
		return nil
	}

	return func(ctx context.Context, question string) (string, error) {
		node, err := Dial(ctx, c)
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

// JudgeReady says, before anybody is asked for anything, what the judge lacks.
func (c *Node) judgeReady(ctx context.Context) error {
	if c.judge() == nil {
		return advice.Usage("name an agent that thinks under buyer.judge: docs/build-agents/thinking-agents.md; --adjudicate merge needs none", "%w", panel.ErrNoJudge)
	}
	_, err := Dial(ctx, c)
	return err
}
