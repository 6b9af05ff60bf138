package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	// relayLook is how often the state of the relays is looked at.
	relayLook = 100 * time.Millisecond
)

// SaleLog tells the operator of a provider what happens to it: which relays it
// has, where it is announced, and how each job ended.
type SaleLog struct {
	ready func(key string) // selling begins
	words func(text string) string

	log       *slog.Logger
	mu        sync.Mutex
	announced map[string]bool // by relay
}

// NewSaleLog writes a line to log for each thing that happens; ready is told the
// provider's key when selling begins. words puts the program's own words in the place of
// the actions of a text: see [advice.Say].
func NewSaleLog(log *slog.Logger, words func(text string) string, ready func(key string)) *SaleLog {
	return &SaleLog{log: log, words: words, ready: ready, announced: map[string]bool{}}
}

// say writes one line.
func (t *SaleLog) say(format string, args ...any) {
	t.log.Info(display.Printable(t.words(fmt.Sprintf(format, args...))))
}

// watchRelays tells of every relay that is reached or lost, until ctx ends.
func (t *SaleLog) watchRelays(ctx context.Context, pool *relay.Pool) error {
	told := map[string]relay.State{}
	tick := time.NewTicker(relayLook)
	defer tick.Stop()

	for {
		for _, st := range pool.Status() {
			t.relay(told, st)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *SaleLog) relay(told map[string]relay.State, st relay.Status) {
	if told[st.URL] == st.State {
		return
	}

	switch st.State {
	case relay.StateConnected:
		t.say("connected to %s", st.URL)
	case relay.StateWaiting:
		t.say("not connected to %s, retrying: %s", st.URL, st.Error)
	default: // on the way to one of these
		return
	}

	told[st.URL] = st.State
}

// event tells when a relay has taken the announcement for the first time, and how
// each job ended.
func (t *SaleLog) event(e provider.JobEvent) {
	switch e := e.(type) {
	case provider.PublicationEvent:
		for _, a := range e.Acks {
			if e.Kind == kinds.Announcement && a.OK && t.firstOn(a.Relay) {
				t.say("announced on %s", a.Relay)
			}
		}
	case provider.SettlementEvent:
		if e.Purpose == receipts.PurposeEngagement {
			t.say("engagement fee of job %s paid, %s", display.Short(e.RequestID), display.Msats(e.PaidMsats))
			return
		}
		t.say("job %s %s, %s, receipt %s", display.Short(e.RequestID), provider.StateSucceeded, display.Msats(e.PaidMsats), display.ShortReceipt(e.ReceiptID))
	case provider.RefundEvent:
		if e.End.State == payments.PaymentFailed {
			t.say("refund of job %s failed, it is the buyer's credit now: %s", display.Short(e.RequestID), e.End.Reason)
		} else {
			t.say("job %s refunded, fee %s", display.Short(e.RequestID), display.Msats(e.End.FeeMsats))
		}
	case provider.EndEvent:
		t.ended(e)
	}
}

func (t *SaleLog) firstOn(relay string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.announced[relay]
	t.announced[relay] = true
	return first
}

// ended tells how a job ended that leaves no receipt.
func (t *SaleLog) ended(e provider.EndEvent) {
	line := fmt.Sprintf("job %s %s, %s", display.Short(e.RequestID), e.State, display.Msats(0))
	if e.Reason.Code != "" {
		line += ": " + e.Reason.String()
	}
	if e.Owed != nil {
		line += "; " + display.Msats(e.Owed.Msats) + " are owed to the buyer"
		if e.Owed.Refund == nil {
			line += ", as credit"
		}
	}
	t.say("%s", line)
}
