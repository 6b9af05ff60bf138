package text

import (
	"context"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/agentruntime/analysis/code"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// builtin does jobs without a language model.
type builtin struct {
	// slots bounds the number of concurrent jobs; further jobs wait. Each may need
	// some hundred megabytes and a whole processor.
	slots chan struct{}
}

// wait waits for a slot. A running job is not interrupted: it takes a second at
// most.
func (b builtin) wait(ctx context.Context) (release func(), err error) {
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b builtin) analyse(ctx context.Context, _ *schemas.Schema, req *schemas.Request) (any, error) {
	release, err := b.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return code.Analyse(req.Value.(*schemas.CodeChunkRequest)), nil
}

func (b builtin) rank(ctx context.Context, _ *schemas.Schema, req *schemas.Request) (any, error) {
	release, err := b.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return analysis.Rerank(req.Value.(*schemas.RerankRequest)), nil
}

func (b builtin) embed(ctx context.Context, _ *schemas.Schema, req *schemas.Request) (any, error) {
	release, err := b.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	result, err := analysis.Embeddings(req.Value.(*schemas.EmbeddingRequest))
	if err != nil {
		return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
	}
	return result, nil
}
