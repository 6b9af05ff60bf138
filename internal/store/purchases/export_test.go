package purchases

import (
	"github.com/lightwork-market/lightwork/internal/store/names"
)

// Queries are those of the area that are asked for again and again.
var Queries = []struct {
	Text    string
	Args    int
	Ordered bool
}{
	{Text: names.OfReceipt(received), Args: 2},
	{Text: names.OfRequest(received), Args: 2},
	{Text: names.Newest(received), Args: 1, Ordered: true},
	{Text: names.OfRequest(purchaseIDs), Args: 2},
	{Text: names.OfReceipt(purchasesPaid), Args: 2},
	{Text: openPurchaseIDs},
	{Text: endedTotals},
	{Text: openCounts},
	{Text: openSum},
	{Text: givenUpIDs},
	{Text: history, Args: 3},
}
