package buyer

import "fmt"

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the %s budget has %d msats left, this payment may take %d msats with fees", e.Limit, e.FreeMsats, e.WantMsats)
}
