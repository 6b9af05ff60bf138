package lnd

import (
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
)

// TestWarning (B5): a payment that lnd calls in flight and no channel holds is
// onInvoice of, and stays in flight.
func TestWarning(t *testing.T) {
	old, young := time.Now().Add(-time.Hour).UnixNano(), time.Now().UnixNano()
	held := &lnrpc.HTLC{HashLock: testHash[:], ExpirationHeight: 812}
	active := func(htlcs ...*lnrpc.HTLC) []*lnrpc.Channel {
		return []*lnrpc.Channel{{Active: true}, {Active: true, PendingHtlcs: htlcs}}
	}
	other := &lnrpc.HTLC{HashLock: make([]byte, 32)}
	incoming := &lnrpc.HTLC{HashLock: testHash[:], Incoming: true}
	tests := []struct {
		name    string
		state   *lnrpc.Payment
		created int64
		held    []*lnrpc.Channel
		refuse  error
		want    string
	}{
		{"held by a channel", update(t, inFlight), old, active(other, held), nil, heldUntil(812, "")},
		{
			"its channel's other end is away", update(t, inFlight), old,
			append(active(held), &lnrpc.Channel{RemotePubkey: "02ab", PendingHtlcs: []*lnrpc.HTLC{{HashLock: testHash[:], ExpirationHeight: 900}}}), nil,
			"the next node on the route, 02ab, is not connected: the payment ends when it returns, or at block 900 at the latest",
		},
		{"in no channel", update(t, inFlight), old, active(other, incoming), nil, lostByLND},
		{"never begun", update(t, initiated), old, nil, nil, lostByLND},
		{"young", update(t, inFlight), young, nil, nil, ""},
		{"over", update(t, succeeded), old, nil, nil, ""},
		{"not permitted to look", update(t, inFlight), old, nil, status.Error(codes.Unknown, "permission denied"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fake := &fakeLND{channels: test.held}
			fake.refuse = func(rpc string) error {
				if rpc == rpcListChannels {
					return test.refuse
				}
				return nil
			}
			w := fake.start(t, Config{})
			test.state.CreationTimeNs = test.created
			fake.tell(testHash, test.state)
			p, err := w.LookupPayment(t.Context(), testHash)
			if err != nil || p.Warning != test.want {
				t.Errorf("got %q, %v; want %q", p.Warning, err, test.want)
			}
			if test.want != "" && p.State != payments.PaymentInFlight {
				t.Errorf("the payment is %s", p.State)
			}
		})
	}
}
