package devnet

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

// redialEvery is how long WaitChannel waits for lnd to connect by itself, which
// usually takes seconds. Connecting sooner would disturb lnd's attempt; without it,
// lnd's next attempt may be minutes away.
const redialEvery = 20 * time.Second

// WaitChannel waits until a channel with peer can carry payments. It connects to
// the peer if lnd does not.
func (n *Node) WaitChannel(ctx context.Context, peer *Node) error {
	dialed := time.Now()
	return n.poll(ctx, "channel with "+peer.name, func(ctx context.Context) (bool, error) {
		var reply struct {
			Channels []struct {
				RemotePubkey string `json:"remote_pubkey"`
			}
		}
		err := n.rest.call(ctx, http.MethodGet, "/v1/channels?active_only=true", nil, &reply)

		for _, channel := range reply.Channels {
			if channel.RemotePubkey == peer.PubKey() {
				return true, nil
			}
		}

		if time.Since(dialed) > redialEvery {
			dialed = time.Now()
			// The error is irrelevant: the peer may be down, or connected already.
			_ = n.rest.call(ctx, http.MethodPost, "/v1/peers", map[string]any{
				"addr": map[string]string{"pubkey": peer.PubKey(), "host": peer.peerAddress},
			}, nil)
		}

		return false, err
	})
}

// WaitGossip waits until the node knows a public channel of another node with the
// fees of both ends, so that it can route payments over it.
func (n *Node) WaitGossip(ctx context.Context, of *Node) error {
	return n.poll(ctx, "gossip", func(ctx context.Context) (bool, error) {
		var graph struct {
			Edges []struct {
				Node1       string    `json:"node1_pub"`
				Node2       string    `json:"node2_pub"`
				Node1Policy *struct{} `json:"node1_policy"`
				Node2Policy *struct{} `json:"node2_policy"`
			}
		}
		err := n.rest.call(ctx, http.MethodGet, "/v1/graph", nil, &graph)

		for _, edge := range graph.Edges {
			if (edge.Node1 == of.PubKey() || edge.Node2 == of.PubKey()) && edge.Node1Policy != nil && edge.Node2Policy != nil {
				return true, nil
			}
		}
		return false, err
	})
}

// ChannelBalance returns the node's balance in its channels and the amount in its
// unsettled payments, in msats.
func (n *Node) ChannelBalance(ctx context.Context) (localMsats, pendingMsats int64, err error) {
	type amount struct {
		Msat int64 `json:"msat,string"`
	}
	var reply struct {
		Local amount `json:"local_balance"`
		// An amount that we offered belongs to the peer once it has the preimage.
		Outgoing amount `json:"unsettled_remote_balance"`
	}
	if err := n.rest.call(ctx, http.MethodGet, "/v1/balance/channels", nil, &reply); err != nil {
		return 0, 0, fmt.Errorf("channel balance of %s: %w", n.name, err)
	}
	return reply.Local.Msat, reply.Outgoing.Msat, nil
}

// ResetMissionControl makes the node forget which channels have failed: with only
// one route, a failed payment blocks the next one for an hour.
func (n *Node) ResetMissionControl(ctx context.Context) error {
	if err := n.rest.call(ctx, http.MethodPost, "/v2/router/mc/reset", struct{}{}, nil); err != nil {
		return fmt.Errorf("reset mission control of %s: %w", n.name, err)
	}
	return nil
}

// BakeMacaroon writes a macaroon with exactly the named RPC URIs to path, like
// `lncli bakemacaroon uri:...`.
func (n *Node) BakeMacaroon(ctx context.Context, path string, uris []string) error {
	type permission struct {
		Entity string `json:"entity"`
		Action string `json:"action"`
	}
	var request struct {
		Permissions []permission `json:"permissions"`
	}
	for _, uri := range uris {
		request.Permissions = append(request.Permissions, permission{Entity: "uri", Action: uri})
	}
	var reply struct{ Macaroon string }
	if err := n.rest.call(ctx, http.MethodPost, "/v1/macaroon", request, &reply); err != nil {
		return fmt.Errorf("bake macaroon on %s: %w", n.name, err)
	}
	macaroon, err := hex.DecodeString(reply.Macaroon)
	if err != nil {
		return fmt.Errorf("bake macaroon on %s: %w", n.name, err)
	}
	return os.WriteFile(path, macaroon, 0o600)
}

func (n *Node) newAddress(ctx context.Context) (string, error) {
	var reply struct{ Address string }
	err := n.poll(ctx, "an address", func(ctx context.Context) (bool, error) {
		err := n.rest.call(ctx, http.MethodGet, "/v1/newaddress?type=NESTED_PUBKEY_HASH", nil, &reply)
		return err == nil, err
	})
	return reply.Address, err
}

func (n *Node) connect(ctx context.Context, to *Node) error {
	body := map[string]any{
		"addr": map[string]string{"pubkey": to.PubKey(), "host": to.peerAddress},
		"perm": true,
	}
	return n.poll(ctx, "connection to "+to.name, func(ctx context.Context) (bool, error) {
		err := n.rest.call(ctx, http.MethodPost, "/v1/peers", body, nil)
		// Repeating the call shows whether the connection exists.
		already := new(restError)
		if errors.As(err, &already) && already.Message == "already connected to peer: "+to.PubKey()+"@"+to.peerAddress {
			return true, nil
		}
		return false, err
	})
}

func (n *Node) openChannel(ctx context.Context, to *Node, capacitySats, pushSats int64) error {
	key, err := hex.DecodeString(to.PubKey())
	if err != nil {
		return err
	}
	body := map[string]any{
		"node_pubkey":          base64.StdEncoding.EncodeToString(key),
		"local_funding_amount": strconv.FormatInt(capacitySats, 10),
		"push_sat":             strconv.FormatInt(pushSats, 10),
		"sat_per_vbyte":        "2",
		"spend_unconfirmed":    true,
	}
	return n.poll(ctx, "open channel to "+to.name, func(ctx context.Context) (bool, error) {
		err := n.rest.call(ctx, http.MethodPost, "/v1/channels", body, nil)
		return err == nil, err
	})
}

func (n *Node) waitBalance(ctx context.Context, sats int64) error {
	return n.poll(ctx, "coins", func(ctx context.Context) (bool, error) {
		var reply struct {
			Confirmed int64 `json:"confirmed_balance,string"`
		}
		err := n.rest.call(ctx, http.MethodGet, "/v1/balance/blockchain", nil, &reply)
		return reply.Confirmed >= sats, err
	})
}

// payOnChain sends coins to another node.
func (n *Node) payOnChain(ctx context.Context, to *Node, sats int64) error {
	address, err := to.newAddress(ctx)
	if err != nil {
		return err
	}
	body := map[string]any{"addr": address, "amount": strconv.FormatInt(sats, 10), "sat_per_vbyte": "2"}
	return n.poll(ctx, "pay coins to "+to.name, func(ctx context.Context) (bool, error) {
		err := n.rest.call(ctx, http.MethodPost, "/v1/transactions", body, nil)
		return err == nil, err
	})
}
