package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/kernel"
)

// talk is a conversation with the organism: a thread that stays, whose context
// the curator keeps within what a model can use. It is nil where none was named.
type talk struct {
	k      *kernel.Kernel
	thread pipeline.ThreadID
	view   curator.View
}

// talk opens the conversation that a request names, with the view of what was
// said that fits the request.
func (s *society) talk(ctx context.Context, req host.AskRequest) (*talk, error) {
	if req.Conversation == "" {
		return nil, nil
	}
	id, err := pipeline.ThreadID("root").Child("talk[" + req.Conversation + "]")
	if err != nil {
		return nil, &host.CallError{Code: wire.CodeInvalidInput, Message: "a conversation's name has letters, digits and _.:/@- only"}
	}
	if err := s.k.Update(ctx, func(tx *kernel.Tx) error { return tx.EnsureThread(string(id), req.Profile) }); err != nil {
		return nil, err
	}
	c, err := curator.New(curator.Config{Store: s.k.ContextStore()})
	if err != nil {
		return nil, err
	}
	t := &talk{k: s.k, thread: id}
	t.view, _, err = c.Turn(ctx, id, req.Text)
	return t, err
}

// context is what the listener is shown of the conversation.
func (t *talk) context() string {
	if t == nil {
		return ""
	}
	return t.view.Text()
}

// keep adds what was asked and answered, both or neither.
func (t *talk) keep(ctx context.Context, asked string, answer []byte) error {
	if t == nil {
		return nil
	}
	text := string(answer)
	var said struct{ Text string }
	if json.Unmarshal(answer, &said) == nil && said.Text != "" {
		text = said.Text
	}
	return t.k.Update(ctx, func(tx *kernel.Tx) error {
		for _, part := range []string{"The person said: " + asked, "The answer was: " + text} {
			if _, err := tx.PutSegment(string(t.thread), "text/plain", []byte(part)); err != nil {
				return fmt.Errorf("keep the conversation: %w", err)
			}
		}
		return nil
	})
}
