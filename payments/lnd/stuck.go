package lnd

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/lightwork-market/lightwork/payments"
)

// stuckAfter is the age from which a payment in flight is searched for in the
// channels; a younger one may be between two of them.
const stuckAfter = time.Minute

// lostByLND is the warning for a payment in none of the open channels. A closing
// channel may still hold it, so it does not count as failed.
const lostByLND = "lnd reports the payment as in flight, but no open channel holds it: it may never end (docs/use/payments.md says what to do)"

// warning says why a payment in flight takes long or may never end: if lnd is
// killed at the wrong moment, it keeps an attempt that it never sent, or a payment
// without attempts (lnd#9340). It is "" if the reason is unknown, for example
// because the macaroon does not permit listing the channels.
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

	until, offlinePeer := uint32(0), ""
	for _, channel := range reply.Channels {
		for _, htlc := range channel.PendingHtlcs {
			if htlc.Incoming || !bytes.Equal(htlc.HashLock, hash[:]) {
				continue
			}
			until = max(until, htlc.ExpirationHeight)
			if !channel.Active {
				offlinePeer = channel.RemotePubkey
			}
		}
	}

	return heldUntil(until, offlinePeer)
}

// heldUntil says when a payment held in channels ends at the latest: at its time
// lock, whatever the nodes on the route do. away is the next node, if it is not
// connected.
func heldUntil(height uint32, offlinePeer string) string {
	switch {
	case height == 0:
		return lostByLND
	case offlinePeer != "":
		return fmt.Sprintf("the next node on the route, %.16s, is not connected: the payment ends when it returns, or at block %d at the latest", offlinePeer, height)
	}
	return fmt.Sprintf("it is held on the route or by the payee: it ends at block %d at the latest", height)
}
