package devnet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Publish gives a signed transaction to the chain itself, past the wallets,
// which would not send one that spends a coin twice. One that replaces another
// is taken by the rules of BIP 125.
func (n *Network) Publish(ctx context.Context, raw []byte) (txid string, err error) {
	if err := n.btcd.call(ctx, "sendrawtransaction", &txid, hex.EncodeToString(raw)); err != nil {
		return "", fmt.Errorf("publish transaction: %w", err)
	}
	return txid, nil
}

// Waiting lists the transactions that are in no block.
func (n *Network) Waiting(ctx context.Context) (txids []string, err error) {
	if err := n.btcd.call(ctx, "getrawmempool", &txids); err != nil {
		return nil, fmt.Errorf("list mempool: %w", err)
	}
	return txids, nil
}

// Draft chooses coins for a transaction and reserves none: the next draft spends
// the same ones. The answer is a PSBT.
func (n *Node) Draft(ctx context.Context, address string, sats, satPerVByte int64) (psbt []byte, err error) {
	var reply struct {
		PSBT   []byte `json:"funded_psbt"`
		Locked []struct {
			ID       []byte          `json:"id"`
			Outpoint json.RawMessage `json:"outpoint"`
		} `json:"locked_utxos"`
	}
	err = n.rest.call(ctx, http.MethodPost, "/v2/wallet/psbt/fund", map[string]any{
		"raw": map[string]any{"outputs": map[string]string{address: strconv.FormatInt(sats, 10)}}, "sat_per_vbyte": strconv.FormatInt(satPerVByte, 10), "min_confs": 1,
	}, &reply)
	if err != nil {
		return nil, fmt.Errorf("draft transaction: %w", err)
	}

	for _, l := range reply.Locked {
		if err := n.rest.call(ctx, http.MethodPost, "/v2/wallet/utxos/release", map[string]any{"id": l.ID, "outpoint": l.Outpoint}, nil); err != nil {
			return nil, fmt.Errorf("release coin: %w", err)
		}
	}

	return reply.PSBT, nil
}

// Sign makes a transaction of a draft, and publishes nothing.
func (n *Node) Sign(ctx context.Context, psbt []byte) (raw []byte, err error) {
	var reply struct {
		Raw []byte `json:"raw_final_tx"`
	}
	if err := n.rest.call(ctx, http.MethodPost, "/v2/wallet/psbt/finalize", map[string]any{"funded_psbt": psbt}, &reply); err != nil {
		return nil, fmt.Errorf("sign transaction: %w", err)
	}
	return reply.Raw, nil
}
