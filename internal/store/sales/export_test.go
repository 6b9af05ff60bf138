package sales

import (
	"github.com/lightwork-market/lightwork/internal/store/names"
)

// Queries are those of the area that are asked for again and again.
var Queries = []struct {
	Text    string
	Args    int
	Ordered bool
}{
	{Text: names.OfReceipt(signed), Args: 2},
	{Text: names.OfRequest(signed), Args: 2},
	{Text: names.Newest(signed), Args: 1, Ordered: true},
	{Text: names.OfRequest(requestIDs), Args: 2},
	{Text: names.OfReceipt(jobsPaid), Args: 2},
	{Text: tip, Ordered: true},
	{Text: openJobIDs},
	{Text: unknownPaymentIDs},
	{Text: record},
}
