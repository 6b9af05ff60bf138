package lnd

import (
	"bytes"
	"context"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/lightwork-market/lightwork/payments"
)

// stuckAfter is how old a payment under way must be before it is looked for in
// the channels: a young one may be between two of them.
const stuckAfter = time.Minute

// lostByLND is the warning of a payment that no open channel holds. A channel
// that is being closed may still hold it, so it is not called failed.
const lostByLND = "lnd takes the payment for in flight, and no open channel holds it: it may never end (docs/payments.md says what to do)"

// warning says why a payment under way may never end: killed at the wrong
// moment, lnd keeps an attempt that it never sent, or a payment without any
// (lnd#9340). It is "" wherever that cannot be told, such as with a macaroon
// that does not permit to list the channels.
func (w *Wallet) warning(ctx context.Context, raw *lnrpc.Payment, hash payments.Hash) string {
	under := raw.Status == lnrpc.Payment_IN_FLIGHT || raw.Status == lnrpc.Payment_INITIATED
	if !under || time.Since(time.Unix(0, raw.CreationTimeNs)) < stuckAfter {
		return ""
	}
	reply, err := call(ctx, w, rpcListChannels, w.ln.ListChannels, &lnrpc.ListChannelsRequest{})
	if err != nil {
		w.cfg.Log.Debug("look for a payment in the channels", "payment_hash", hash.String(), "error", err)
		return ""
	}
	for _, channel := range reply.Channels {
		for _, htlc := range channel.PendingHtlcs {
			if !htlc.Incoming && bytes.Equal(htlc.HashLock, hash[:]) {
				return ""
			}
		}
	}
	return lostByLND
}
