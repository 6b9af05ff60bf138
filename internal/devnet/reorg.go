package devnet

import (
	"context"
	"fmt"
)

// Disconnect removes the last blocks from the chain, like the start of a
// reorganisation. Their transactions become unconfirmed. The chain is shorter until
// Mine makes it longer than before; until then the nodes may not notice.
func (n *Network) Disconnect(ctx context.Context, blocks int) error {
	height, err := n.btcd.height(ctx)
	if err != nil {
		return err
	}
	var hash string
	if err := n.btcd.call(ctx, "getblockhash", &hash, height-blocks+1); err != nil {
		return fmt.Errorf("find block %d: %w", height-blocks+1, err)
	}
	if err := n.btcd.call(ctx, "invalidateblock", nil, hash); err != nil {
		return fmt.Errorf("take %d blocks off the chain: %w", blocks, err)
	}

	return nil
}
