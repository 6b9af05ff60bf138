package store

import (
	"github.com/lightwork-market/lightwork/internal/store/contexts"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/sales"
)

// baseline is the version of the first migration. Until the first release it rises with
// every change of the schema, so that a database of an earlier program is refused for
// what it is.
const baseline = 1005

// migrations are the steps from an empty file to the present schema: the first is
// the whole of it, area by area. From the first release on a step never changes, and
// what is new comes as a further one. A script must take no time, whatever the
// database holds: a step that has to go through rows is to do so in batches of a
// bounded number, which sqlite.Options learns with the first that needs it.
func migrations() []string {
	return []string{
		journal.Schema() + contexts.Schema() + outbox.Schema() + sales.Schema() + purchases.Schema() + money.Schema() +
			pruning.Schema(),
	}
}
