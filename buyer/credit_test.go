package buyer_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
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

// TestAffordsWithCredit: what a provider owes lowers what it will ask for, so an
// announced price that the budget does not hold by itself may be worth asking for.
func TestAffordsWithCredit(t *testing.T) {
	// What was spent counts until midnight (UTC).
	if left := time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)); left < time.Minute {
		time.Sleep(left)
	}
	c, p, _ := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		return []nostr.Event{c.offer(req, func(*deal) {}), c.event(c.key, 7000, nostr.Tags{
			{"status", "error", "internal: broken"}, {"owed", strconv.Itoa(price)}, {"e", req.ID}, {"p", req.PubKey},
		}, ""), c.end(req)}
	}, nil, buyer.Limits{})
	client, err := buyer.New(buyer.Config{
		Signer: c.key, Store: c.store, Wallet: c, Market: c, Limits: buyer.Limits{DayMsats: price + 1500, FeeMsats: 500},
	})
	if err != nil {
		t.Fatal(err)
	}
	for owed, want := range map[string]int64{p.Provider: price, "nobody": 0} {
		err := client.Affords(t.Context(), owed, price+1000, 10*price)
		var over *buyer.BudgetError
		if fits := err == nil; fits != (want > 0) || !fits && (!errors.As(err, &over) || over.WantMsats != price+1500) {
			t.Errorf("owed %d: %v", want, err)
		}
	}
}
