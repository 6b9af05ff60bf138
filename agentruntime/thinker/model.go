package thinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// ModelConfig is the handler of the model. All fields are required.
type ModelConfig struct {
	Name, Description string
	// Thinkers are the only handlers it answers.
	Thinkers []string
	// Chat asks the model, and passes on text as it comes. Errors are those of
	// a *chat.Error or of ctx. It may be a client, or a call to the process
	// that has one.
	Chat func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error)
}

// streamChannel is where the text goes while it is written.
const streamChannel = "stdout"

// Model makes the handler of the model: the one place where inference is.
func Model(cfg ModelConfig) (pipeline.Handler, error) {
	if cfg.Name == "" || cfg.Description == "" || len(cfg.Thinkers) == 0 || cfg.Chat == nil {
		return pipeline.Handler{}, errors.New("model handler: a field is missing")
	}
	cfg.Thinkers = slices.Clone(cfg.Thinkers)
	return pipeline.Handler{
		Name: cfg.Name, Description: cfg.Description, Tags: []string{TagRequest}, Outputs: []string{TagResponse},
		Handle: cfg.handle,
	}, nil
}

func (cfg ModelConfig) handle(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	// The pipeline sets the sender, and lets nobody outside bear a handler's name.
	if !slices.Contains(cfg.Thinkers, c.Sender) {
		return pipeline.Fail(pipeline.Failure{Code: "model.not_an_agent", Message: "only agents may ask the model"}), nil
	}
	r, err := parseRequest(p.Bytes)
	if err != nil {
		return pipeline.Fail(pipeline.Failure{Code: "model.bad_request", Message: clip(err.Error())}), nil
	}
	call := pipeline.CallFrom(ctx)
	out, err := cfg.Chat(ctx, r, func(text string) { call.Stream(streamChannel, text) })
	if err == nil {
		err = out.Check()
	}
	if err != nil {
		return pipeline.Fail(modelFailure(err)), nil
	}
	doc, err := json.Marshal(out)
	if err != nil {
		return pipeline.Response{}, fmt.Errorf("encode model response: %w", err)
	}
	return pipeline.Reply(TagResponse, doc), nil
}

func modelFailure(err error) pipeline.Failure {
	f := pipeline.Failure{Code: "model.failed", Message: clip(err.Error())}
	var failed *chat.Error
	if errors.As(err, &failed) {
		f.Code, f.Retryable = failed.Code(), failed.Retryable()
	}
	return f
}

// OneThinker checks a whole configuration (AP-11.6.1): no handler but the
// thinkers has the model's among its peers.
func OneThinker(handlers []pipeline.Handler, model string, thinkers []string) error {
	for _, h := range handlers {
		if slices.Contains(h.Peers, model) && !slices.Contains(thinkers, h.Name) {
			return fmt.Errorf("handler %s has the model among its peers, but is no agent", h.Name)
		}
	}
	return nil
}

// maxMessage keeps a message well within what a failure may hold.
const maxMessage = 1 << 10

func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "?")
}
