package money

import (
	"fmt"
)

// Queries are those of the area that are asked for again and again.
var Queries = []struct {
	Text    string
	Args    int
	Ordered bool
}{
	{Text: dayBudget, Args: 1},
	{Text: providerBudget, Args: 2},
	{Text: openRefundIDs},
	{Text: attemptsOfDebt, Args: 1},
	{Text: fmt.Sprintf(creditsOwed, "WHERE request_id = ?"), Args: 1},
}
