package devnet

import (
	"context"
	"fmt"
)

// Disconnect takes the last blocks off the chain, as a reorganisation begins.
// Their transactions wait for a block again. The chain is then shorter until
// Mine makes it longer than it was, without which the nodes may not notice.
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
