package buy

import (
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/display"
)

// showOutside prints what an outside provider says of itself.
func showOutside(w io.Writer, l buyer.Listing) {
	amount := display.Cut(l.Amount, 20)
	if amount == "" {
		amount = "not said"
	}
	fmt.Fprintf(w, "%s\n  OUTSIDE, no quote and no receipt; price %s: %s\n", l.NPub, amount, display.Cut(l.Name, 30))
	for _, job := range l.Jobs {
		fmt.Fprintf(w, "    %s\n", display.Cut(job, 70))
	}
}
