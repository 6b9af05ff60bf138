package buyer

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
)

// CreditWay is what a provider says of what it owes us: that it does, or that a
// quote is lowered by it. It is its own word, which it signed: it tells who owes
// from who took the money and was silent, and nothing is paid by it.
type CreditWay string

// The ways of credit.
const (
	CreditOwed CreditWay = "owed" // of a purchase that failed
	CreditUsed CreditWay = "used" // the price of this one is less by it
)

// tag is where a provider says so, in the feedback of the purchase.
func (w CreditWay) tag() string {
	if w == CreditOwed {
		return "owed"
	}
	return "credit"
}

// creditIn is how much a feedback event names; 0 if nothing that counts.
func creditIn(ev nostr.Event, way CreditWay) int64 {
	t := ev.Tags.Find(way.tag())
	if t == nil {
		return 0
	}
	msats, err := strconv.ParseInt(t[1], 10, 64)
	if err != nil || msats <= 0 || payments.CheckMsats(msats) != nil {
		return 0
	}
	return msats
}

func (f *follower) credit(ctx context.Context, ev nostr.Event, way CreditWay) error {
	msats := creditIn(ev, way)
	if msats == 0 {
		return nil
	}
	if err := f.c.cfg.Store.SetCredit(ctx, f.id, way, msats); err != nil {
		return fmt.Errorf("record credit: %w", err)
	}
	return nil
}

// creditText tells how much of what the provider owes us lowered its price, in
// its own words: a number that nothing depends on.
func creditText(ev nostr.Event) string {
	if credit := creditIn(ev, CreditUsed); credit > 0 {
		return fmt.Sprintf(", after %g sat of credit", float64(credit)/1000)
	}
	return ""
}
