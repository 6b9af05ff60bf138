package devnet

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
)

// walletPassword protects nothing of value.
const walletPassword = "devnet-password"

// AddLockedNode adds a node whose wallet has a password, and returns when the node
// waits to be unlocked, like an operator's node after a reboot. Its name must be
// new in the network.
func (n *Network) AddLockedNode(ctx context.Context, name string) (*Node, error) {
	node, err := n.newNode(name)
	if err != nil {
		return nil, err
	}
	node.password = walletPassword
	if err := node.writeConfig(); err != nil {
		return nil, err
	}
	if err := node.runUntil(ctx, "NON_EXISTING"); err != nil {
		return nil, err
	}
	if err := node.createWallet(ctx); err != nil {
		return nil, fmt.Errorf("create wallet of %s: %w", name, err)
	}
	if err := node.waitSynced(ctx); err != nil {
		return nil, err
	}

	node.Stop()
	return node, node.runUntil(ctx, "LOCKED")
}

// Unlock opens the wallet of a locked node and waits until the node is
// synchronised.
func (n *Node) Unlock(ctx context.Context) error {
	body := map[string]string{"wallet_password": base64.StdEncoding.EncodeToString([]byte(n.password))}
	if err := n.rest.call(ctx, http.MethodPost, "/v1/unlockwallet", body, nil); err != nil {
		return fmt.Errorf("unlock %s: %w", n.name, err)
	}
	return n.Start(ctx)
}

// runUntil starts the process and waits until its wallet is in the given state.
func (n *Node) runUntil(ctx context.Context, state string) error {
	if err := n.run(); err != nil {
		return err
	}
	return n.poll(ctx, "wallet "+state, func(ctx context.Context) (bool, error) {
		if err := n.connectREST(); err != nil {
			return false, nil // the certificate is not written yet
		}
		var reply struct{ State string }
		err := n.rest.call(ctx, http.MethodGet, "/v1/state", nil, &reply)
		return reply.State == state, err
	})
}

func (n *Node) createWallet(ctx context.Context) error {
	var seed struct {
		Words []string `json:"cipher_seed_mnemonic"`
	}
	if err := n.rest.call(ctx, http.MethodGet, "/v1/genseed", nil, &seed); err != nil {
		return err
	}
	return n.rest.call(ctx, http.MethodPost, "/v1/initwallet", map[string]any{
		"wallet_password":      base64.StdEncoding.EncodeToString([]byte(n.password)),
		"cipher_seed_mnemonic": seed.Words,
	}, nil)
}
