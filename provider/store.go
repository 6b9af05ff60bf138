package provider

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/flow"
	"github.com/lightwork-market/lightwork/provider/internal/intake"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/provider/internal/run"
)

// Store keeps jobs: it is what each stage asks of a database. Every method that changes
// anything is one durable transaction: when it returns nil, all it names is on disk;
// otherwise nothing is. Queued events ride in the same transaction.
//
// A buyer's credit is what came for failed prepaid jobs, less what was refunded or is
// being refunded, less what quotes of jobs that have not failed were lowered by. It is
// never below zero: AddJob and Close refuse what would make it so.
type Store interface {
	publish.Store
	announce.Store
	admission.Store
	restore.Store
	refund.Store
	charge.Store
	run.Store
	deliver.Store
	intake.Store
	flow.Store

	// UsePolicy stores the policy manifest that is sold under from now on.
	UsePolicy(ctx context.Context, manifest []byte) error

	// Unsent counts queued events younger than maxAge that fewer relays confirmed
	// than must.
	Unsent(ctx context.Context, maxAge time.Duration) (int, error)
}
