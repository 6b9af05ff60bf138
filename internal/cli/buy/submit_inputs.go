package buy

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/schemas"
)

// checkInputs refuses what cannot be meant together with --input-job.
func (b buyerSubmitCmd) checkInputs() error {
	switch {
	case len(b.InputJob) == 0:
		return nil
	case b.Input != "" || len(b.Cmd) > 0 || b.Repo != "" || b.Git != "":
		return advice.Usage("the result of the job is the document, or follows --prompt", "--input-job cannot be given together with --input, --cmd, --repo or --git")
	case b.Open || b.panel():
		return advice.Usage("name one --provider", "--input-job cannot be given together with --open, --to or --redundancy")
	case b.Prompt == "" && len(b.InputJob) > 1:
		return advice.Usage("with --prompt it may be repeated", "--input-job: the document is the result of one job")
	case b.Prompt == "" && b.Schema == string(schemas.TextGeneration):
		return advice.Usage("", "--input-job: a text needs a --prompt")
	}

	return nil
}

// inputs finds the purchases of --input-job.
func (b buyerSubmitCmd) inputs(ctx context.Context, n *node.Buyer) ([]buyer.Input, error) {
	var list []buyer.Input
	for _, id := range b.InputJob {
		p, err := purchase.Find(ctx, n.Purchases, id)
		if err != nil {
			return nil, err
		}
		input, err := buyer.InputOf(p)
		if err != nil {
			return nil, advice.Usage("lightwork buyer resume "+display.Short(p.RequestID)+" goes on with it", "--input-job: %s is %s: %w", display.Short(p.RequestID), p.State, buyer.ErrNoOutput)
		}
		list = append(list, input)
	}

	return list, nil
}
