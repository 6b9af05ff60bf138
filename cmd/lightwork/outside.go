package main

import (
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
)

// chooseOutside takes a provider that knows NIP-90 alone, if the user said so or
// nothing can be paid.
func (b buyerSubmitCmd) chooseOutside(l buyer.Listing) (buyer.Listing, error) {
	free := b.Mode == receipts.ModeFree || b.MaxMsats == 0
	if b.Outside || free {
		return l, nil
	}
	return buyer.Listing{}, usage("--outside pays it all the same, within --max-msats; --mode free --max-msats 0 pays nothing",
		"%s knows NIP-90 alone: it signs no quote and no receipt, and can keep the money", l.NPub)
}

// showOutside prints what an outside provider says of itself.
func showOutside(w io.Writer, l buyer.Listing) {
	amount := cut(l.Amount, 20)
	if amount == "" {
		amount = "not said"
	}
	fmt.Fprintf(w, "%s\n  OUTSIDE, no quote and no receipt; price %s: %s\n", l.NPub, amount, cut(l.Name, 30))
	for _, job := range l.Jobs {
		fmt.Fprintf(w, "    %s\n", cut(job, 70))
	}
}
