package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	// relayLook is how often the state of the relays is looked at.
	relayLook = 100 * time.Millisecond
)

// teller tells the operator of a provider what happens to it: which relays it
// has, where it is announced, and how each job ended.
type teller struct {
	ready func(key string) // selling begins

	log       *slog.Logger
	mu        sync.Mutex
	announced map[string]bool // by relay
}

func newTeller(log *slog.Logger, ready func(key string)) *teller {
	return &teller{log: log, ready: ready, announced: map[string]bool{}}
}

// say writes one line.
func (t *teller) say(format string, args ...any) {
	t.log.Info(printable(fmt.Sprintf(format, args...)))
}

// watchRelays tells of every relay that is reached or lost, until ctx ends.
func (t *teller) watchRelays(ctx context.Context, pool *relay.Pool) error {
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

func (t *teller) relay(told map[string]relay.State, st relay.Status) {
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

// tellingMarket tells when a relay has taken the announcement for the first time.
type tellingMarket struct {
	provider.Market
	tell *teller
}

// Publish implements provider.Market.
func (m tellingMarket) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	acks := m.Market.Publish(ctx, ev)
	if ev.Kind != kinds.Announcement {
		return acks
	}
	for _, a := range acks {
		if a.OK && m.tell.firstOn(a.Relay) {
			m.tell.say("announced on %s", a.Relay)
		}
	}
	return acks
}

func (t *teller) firstOn(relay string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.announced[relay]
	t.announced[relay] = true
	return first
}

// tellingStore tells how each job ended, once that is durable.
type tellingStore struct {
	provider.Store
	tell *teller
}

// Settle implements provider.Store.
func (s tellingStore) Settle(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	receipt := ""
	err := s.Store.Settle(ctx, id, p, func(is provider.Issue) (provider.Issued, error) {
		issued, err := issue(is)
		receipt = issued.ReceiptID
		return issued, err
	})
	if err == nil {
		s.tell.say("job %s %s, %s, receipt %s", short(id), provider.StateSucceeded, msats(p.PaidMsats), shortReceipt(receipt))
	}
	return err
}

// SettleEngagement implements provider.Store.
func (s tellingStore) SettleEngagement(ctx context.Context, id string, p provider.Payment, issue func(provider.Issue) (provider.Issued, error)) error {
	err := s.Store.SettleEngagement(ctx, id, p, issue)
	if err == nil {
		s.tell.say("engagement fee of job %s paid, %s", short(id), msats(p.PaidMsats))
	}
	return err
}

// Close implements provider.Store.
func (s tellingStore) Close(ctx context.Context, id string, to provider.State, reason provider.Reason, owed *provider.Credit, out ...provider.OutEvent) error {
	err := s.Store.Close(ctx, id, to, reason, owed, out...)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("job %s %s, %s", short(id), to, msats(0))
	if reason.Code != "" {
		line += ": " + reason.String()
	}
	if owed != nil {
		line += "; " + msats(owed.Msats) + " are owed to the buyer"
		if owed.Refund == nil {
			line += ", as credit"
		}
	}
	s.tell.say("%s", line)
	return nil
}
