package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// What a command may read of the databases.
type (
	Sales          = store.ProviderStore
	Purchases      = store.BuyerStore
	PurchaseTotals = store.PurchaseTotals
	StoredReceipt  = store.StoredReceipt
	auditEntry     = journal.AuditLine
)

// MinName is the shortest beginning of an id that finds something.
const MinName = store.MinNamePrefix

// openToRead opens a role's database, also beside a running node; nil if there is
// none yet.
func (c *Node) openToRead(ctx context.Context, role string) (*store.Store, error) {
	dir := c.DataDir(role)
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store.Open(ctx, dir, store.Options{ReadOnly: true, Logger: c.log})
}

// ReadPurchases opens the buyer's database for reading. Before the first purchase
// there is none: do gets nil.
func (c *Node) ReadPurchases(ctx context.Context, do func(*Purchases) error) error {
	k, err := c.openToRead(ctx, "buyer")
	if err != nil {
		return err
	}
	if k == nil {
		return do(nil)
	}
	return cmp.Or(do(k.BuyerStore()), k.Close())
}

// ReadSales opens the provider's database for reading. Before the first sale there may
// be none: do gets nil.
func (c *Node) ReadSales(ctx context.Context, do func(*Sales) error) error {
	k, err := c.openToRead(ctx, "provider")
	if err != nil {
		return err
	}
	if k == nil {
		return do(nil)
	}
	return cmp.Or(do(k.ProviderStore(jobsProfile)), k.Close())
}

// history is what we bought before, from whom; nil before the first purchase.
func (c *Node) history(ctx context.Context) (all map[string]buyer.History, err error) {
	err = c.ReadPurchases(ctx, func(store *Purchases) error {
		if store != nil {
			all, err = store.History(ctx)
		}
		return err
	})
	return all, err
}

// TracedJob is what a role's database has of a job.
type TracedJob struct {
	Role string
	store.Trace
}

// Trace looks for a job, by any of its ids, in the databases of both roles.
func (c *Node) Trace(ctx context.Context, id string) (all []TracedJob, err error) {
	for _, role := range []string{"provider", "buyer"} {
		k, err := c.openToRead(ctx, role)
		if err != nil {
			return nil, err
		}
		if k == nil {
			continue
		}

		found, err := k.Trace(ctx, id)
		if err := cmp.Or(err, k.Close()); err != nil {
			return nil, err
		}
		for _, t := range found {
			all = append(all, TracedJob{role, t})
		}
	}

	return all, nil
}

// LastAudit is the end of the audit trail, of one agent or, for "", of all.
func (c *Node) LastAudit(ctx context.Context, agent string, n int) (lines []auditEntry, err error) {
	k, err := store.Open(ctx, c.DataDir("provider"), store.Options{ReadOnly: true, Logger: c.log})
	if err != nil {
		return nil, advice.Hint(err, "lightwork provider run makes the first lines")
	}
	err = k.View(ctx, func(tx *store.Tx) error {
		lines, err = tx.LastAuditLines(agent, n)
		return err
	})
	return lines, cmp.Or(err, k.Close())
}

// Messages is the log of what agents said to each other, in a session or, if that is
// "", in all: at most limit lines, from the newest. What retention has deleted is not
// in it. There is none before the node's first run.
func (c *Node) Messages(ctx context.Context, session string, limit int) ([]message.LogLine, error) {
	k, err := c.openToRead(ctx, "provider")
	if err != nil || k == nil {
		return nil, err
	}
	lines, err := messageLog(ctx, k, session, limit)
	return lines, cmp.Or(err, k.Close())
}

// Backup copies a role's database while it is in use into a new file, and checks the
// copy.
func (c *Node) Backup(ctx context.Context, role, out string) error {
	k, err := store.Open(ctx, c.DataDir(role), store.Options{ReadOnly: true, Old: true, Logger: c.log})
	if err != nil {
		return advice.Hint(err, "the first lightwork provider run, or buyer submit, makes the database of its role: is --role the right one?")
	}
	return advice.Hint(cmp.Or(k.Backup(ctx, out), k.Close()), "is there room on the disk?")
}

// Restore puts a backup in the place of a role's database and says where the old one
// is; "" if there was none.
func (c *Node) Restore(ctx context.Context, role, from string) (kept string, err error) {
	kept, err = store.Restore(ctx, c.DataDir(role), from, store.Side(role))
	if err != nil {
		if errors.Is(err, sqlite.ErrForeign) {
			return "", advice.Hint(err, "it is the other role's; name its --role, or another backup")
		}
		if errors.Is(err, sqlite.ErrLocked) {
			return "", advice.Hint(err, "stop the node first; the backup itself is not changed")
		}
		if sqlite.IsDamaged(err) || errors.Is(err, sqlite.ErrUnreleased) || errors.Is(err, sqlite.ErrTooNew) {
			err = errors.New(err.Error()) // the backup is: the hints for a database of the node are not for it
		}
		return "", advice.Hint(err, "name another backup; this one is not changed")
	}

	return kept, nil
}

// messageLog is the log of a session or, if that is "", of all: at most limit
// lines, from the newest. What retention has deleted is not in it.
func messageLog(ctx context.Context, k *store.Store, session string, limit int) (lines []message.LogLine, err error) {
	lines = []message.LogLine{}
	err = k.View(ctx, func(tx *store.Tx) error {
		entries, err := tx.Entries(journal.Filter{Session: session, TagPrefix: message.TagPrefix, Limit: limit, Newest: true})
		if err != nil {
			return err
		}

		list := make([]pipeline.Entry, len(entries))
		for i, e := range entries {
			list[i] = pipeline.Entry{
				ID: uint64(e.Seq), Timestamp: e.At, Thread: pipeline.ThreadID(e.Thread), Direction: pipeline.Direction(e.Direction),
				Handler: e.Handler, PayloadTag: e.PayloadTag, PayloadHash: e.PayloadHash,
			}
		}

		found, err := message.Log(list, tx.Content)
		lines = append(lines, found...)
		return err
	})
	return lines, err
}
