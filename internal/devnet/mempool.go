package devnet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Publish sends a signed transaction directly to the chain, because the wallets
// would refuse to spend a coin twice. A replacement is accepted by the rules of BIP
// 125.
func (n *Network) Publish(ctx context.Context, raw []byte) (txid string, err error) {
	if err := n.btcd.call(ctx, "sendrawtransaction", &txid, hex.EncodeToString(raw)); err != nil {
		return "", fmt.Errorf("publish transaction: %w", err)
	}
	return txid, nil
}

// Waiting lists the unconfirmed transactions.
func (n *Network) Waiting(ctx context.Context) (txids []string, err error) {
	if err := n.btcd.call(ctx, "getrawmempool", &txids); err != nil {
		return nil, fmt.Errorf("list mempool: %w", err)
	}
	return txids, nil
}

// Draft chooses coins for a transaction without reserving them, so the next draft
// spends the same coins. It returns a PSBT.
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

// Sign signs a draft without publishing it.
func (n *Node) Sign(ctx context.Context, psbt []byte) (raw []byte, err error) {
	var reply struct {
		Raw []byte `json:"raw_final_tx"`
	}
	if err := n.rest.call(ctx, http.MethodPost, "/v2/wallet/psbt/finalize", map[string]any{"funded_psbt": psbt}, &reply); err != nil {
		return nil, fmt.Errorf("sign transaction: %w", err)
	}
	return reply.Raw, nil
}
