package buyer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
)

func offers(c *cheat, req nostr.Event) []nostr.Event {
	return []nostr.Event{c.offer(req, func(*deal) {})}
}

// TestBareInvoiceIsNoOffer: a purchase that others decide about is not paid for by a
// follower, though its provider may be paid without a quote.
func TestBareInvoiceIsNoOffer(t *testing.T) {
	for name, answer := range map[string]func(*cheat, nostr.Event) []nostr.Event{
		"before": func(c *cheat, req nostr.Event) []nostr.Event { return []nostr.Event{c.asks(req, func(*bare) {})} },
		"in the result": func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.plain(req, "words", c.asks(req, func(*bare) {}).Tags.Find("amount"))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := meet(t, answer, func(*buyer.Config) {})
			c.pays = true
			p, offer, err := client.FollowToOffer(t.Context(), c.place(client, buyer.Order{Plain: true}).RequestID, false, nil)
			if !errors.Is(err, buyer.ErrFailed) || offer != nil || !strings.HasPrefix(p.Reason, buyer.CodeBadOffer) || p.Attempt != nil || len(c.sent) != 0 {
				t.Errorf("%s (%s), offer %v, %v; paid %d times", p.State, p.Reason, offer, err, len(c.sent))
			}
		})
	}
}

// TestAwardIsOfItsOwnOffer: what a buyer signs that it accepts, for a purchase, was
// offered for that purchase.
func TestAwardIsOfItsOwnOffer(t *testing.T) {
	c, client := meet(t, offers, func(*buyer.Config) {})
	p, offer, err := client.FollowToOffer(t.Context(), c.place(client, buyer.Order{}).RequestID, false, nil)
	if err != nil || offer == nil {
		t.Fatalf("%s (%s), %v", p.State, p.Reason, err)
	}
	other := c.place(client, buyer.Order{})

	if _, err := client.Award(t.Context(), p, nil); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("nothing is awarded: %v", err)
	}
	if _, err := client.Award(t.Context(), other, offer); !errors.Is(err, buyer.ErrConflict) || !strings.Contains(err.Error(), p.RequestID) {
		t.Errorf("the offer for another request is awarded: %v", err)
	}
	if a, err := client.Award(t.Context(), p, offer); err != nil || a.RequestID != p.RequestID || a.Attempt == nil {
		t.Errorf("its own offer: %+v, %v", a, err)
	}
	if err := c.store.Reserve(t.Context(), p.RequestID, buyer.Award{}.Charge, buyer.Limits{}); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("a charge without a payment is reserved: %v", err)
	}
}

// TestNothingIsDroppedThatIsPaid: a purchase whose payment was begun is not canceled by
// an attempt to drop it.
func TestNothingIsDroppedThatIsPaid(t *testing.T) {
	c, client := meet(t, offers, func(*buyer.Config) {})
	p, offer, err := client.FollowToOffer(t.Context(), c.place(client, buyer.Order{}).RequestID, false, nil)
	check(t, err)
	a, err := client.Award(t.Context(), p, offer)
	check(t, err)
	check(t, c.store.Reserve(t.Context(), p.RequestID, a.Charge, client.Limits()))

	cancellation, err := client.Cancellation(t.Context(), p.RequestID, p.Provider, "not taken")
	check(t, err)
	if err := client.Drop(t.Context(), p.RequestID, "not taken", cancellation); !errors.Is(err, buyer.ErrConflict) || !strings.Contains(err.Error(), string(buyer.StatePaying)) {
		t.Errorf("dropped while it is paid: %v", err)
	}
	if p, err = client.Purchase(t.Context(), p.RequestID); err != nil || p.Cancel != nil || p.State != buyer.StatePaying {
		t.Errorf("it is %s, canceled %v, %v", p.State, p.Cancel != nil, err)
	}

	open := c.place(client, buyer.Order{})
	check(t, client.Drop(t.Context(), open.RequestID, "not taken", cancellation))
	if open, err = client.Purchase(t.Context(), open.RequestID); err != nil || open.State != buyer.StateFailed || open.Cancel == nil {
		t.Errorf("it is %s, canceled %v, %v", open.State, open.Cancel != nil, err)
	}
}
