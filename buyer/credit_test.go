package buyer_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/relay"
)

// TestOwedIsCredit: what a provider signs that it owes is remembered, whether it
// says so when it fails or when money came after that.
func TestOwedIsCredit(t *testing.T) {
	owes := func(c *cheat, req nostr.Event, status string) nostr.Event {
		return c.event(c.key, 7000, nostr.Tags{
			{"status", status, "canceled: enough"}, {"owed", strconv.Itoa(price)}, {"e", req.ID}, {"p", req.PubKey},
		}, "")
	}
	for status, last := range map[string]func(*cheat, nostr.Event) nostr.Event{
		"error":  func(c *cheat, req nostr.Event) nostr.Event { return owes(c, req, "error") },
		"refund": (*cheat).end,
	} {
		t.Run(status, func(t *testing.T) {
			c, p, _ := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
				c.pays = true
				return []nostr.Event{c.offer(req, func(*deal) {}), owes(c, req, status), last(c, req)}
			}, nil, buyer.Limits{})
			all, err := c.store.History(t.Context())
			if was := all[p.Provider]; err != nil || was.CreditMsats != price || was.Lost != 0 {
				t.Errorf("%+v, %v; the purchase is %s: %s", was, err, p.State, p.Reason)
			}
		})
	}
}

// TestCreditLowersThePrice: what a provider owes lowers what it will ask for, so a
// provider whose announced price the budget does not hold may still be asked.
func TestCreditLowersThePrice(t *testing.T) {
	// What was spent counts until midnight (UTC).
	if left := time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)); left < time.Minute {
		time.Sleep(left)
	}
	c, _, _ := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		return []nostr.Event{c.offer(req, func(*deal) {}), c.event(c.key, 7000, nostr.Tags{
			{"status", "error", "internal: broken"}, {"owed", strconv.Itoa(price)}, {"e", req.ID}, {"p", req.PubKey},
		}, ""), c.end(req)}
	}, nil, buyer.Limits{})
	b, other := newBoard(t), newKey(t)
	for _, key := range []*relay.Key{c.key, other} {
		b.Announce(key, time.Minute, map[string]int64{run: price + 1000}, map[string]int64{run: 0})
	}
	client, err := buyer.New(buyer.Config{
		Signer: newKey(t), Store: c.store, Wallet: c, Market: b, Limits: buyer.Limits{DayMsats: price + 1500, FeeMsats: 500},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Candidates(t.Context(), buyer.Order{SchemaID: run, Input: []byte(request), MaxMsats: 10 * price})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d candidates, %v", len(list), err)
	}
	var over *buyer.BudgetError
	if x := list[0]; x.Provider != c.key.PublicKey() || x.Refusal != nil {
		t.Errorf("who owes us is refused: %v", x.Refusal)
	}
	if x := list[1]; x.Provider != other.PublicKey() || !errors.As(x.Refusal, &over) || over.WantMsats != price+1500 {
		t.Errorf("who owes us nothing: %v", x.Refusal)
	}
}
