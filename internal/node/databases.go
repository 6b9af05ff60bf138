package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/node/archive"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
)

// Databases are those of a node's two roles. Looking into one needs no stop of the
// node that writes it.
type Databases struct{ c *Node }

// Databases are those of this node.
func (c *Node) Databases() Databases { return Databases{c} }

// Fault is why a database cannot be used.
type Fault int

// What can be wrong with a database, of a role or of a wallet.
const (
	NoFault    Fault = iota
	TooOld           // an older program made it; the role's next start brings it up to date
	Unreleased       // a program between two releases made it
	TooNew           // a newer program has changed it
	DiskFull
	Damaged
	InUse // another process has it open
)

// FaultOf says what an error tells of a database; [NoFault] if it is about another
// thing.
func FaultOf(err error) Fault {
	switch {
	case errors.Is(err, sqlite.ErrTooOld):
		return TooOld
	case errors.Is(err, sqlite.ErrUnreleased):
		return Unreleased
	case errors.Is(err, sqlite.ErrTooNew):
		return TooNew
	case sqlite.IsFull(err):
		return DiskFull
	case sqlite.IsDamaged(err):
		return Damaged
	case errors.Is(err, sqlite.ErrLocked):
		return InUse
	}
	return NoFault
}

// MinName is the shortest beginning of an id that finds something.
const MinName = names.MinPrefix

// openToRead opens a role's database, also beside a running node; nil if there is
// none yet, or one that another process has only begun to make.
func (d Databases) openToRead(ctx context.Context, role string) (*store.Store, error) {
	dir := d.c.DataDir(role)
	file, err := os.Stat(filepath.Join(dir, store.FileName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && file.Size() == 0 {
		return nil, nil
	}
	k, err := store.Open(ctx, dir, store.Options{ReadOnly: true, Logger: d.c.log})
	if errors.Is(err, sqlite.ErrEmpty) {
		return nil, nil
	}
	return k, err
}

// ReadPurchases opens the buyer's database for reading. Before the first purchase
// there is none: do gets nil.
func (d Databases) ReadPurchases(ctx context.Context, do func(*Purchases) error) error {
	k, err := d.openToRead(ctx, "buyer")
	if err != nil {
		return err
	}
	if k == nil {
		return do(nil)
	}
	return cmp.Or(do(purchasesIn(k, d.c)), k.Close())
}

// ReadSales opens the provider's database for reading. Before the first sale there may
// be none: do gets nil.
func (d Databases) ReadSales(ctx context.Context, do func(*Sales) error) error {
	k, err := d.openToRead(ctx, "provider")
	if err != nil {
		return err
	}
	if k == nil {
		return do(nil)
	}
	return cmp.Or(do(&Sales{k.Sales(jobsProfile)}), k.Close())
}

// history is what we bought before, from whom; nil before the first purchase.
func (d Databases) history(ctx context.Context) (all map[string]buyer.History, err error) {
	err = d.ReadPurchases(ctx, func(bought *Purchases) error {
		if bought != nil {
			all, err = bought.store.History(ctx)
		}
		return err
	})
	return all, err
}

// TracedJob is what a role's database has of a job: its names and, oldest first, what
// happened.
type TracedJob struct {
	Role      string
	RequestID string
	Names     map[string][]string // ids and hashes, by what they name
	Lines     []TraceLine
}

// TraceLine is one thing that happened to a job.
type TraceLine struct {
	At   time.Time
	Kind string // state, message, event, invoice, payment, run, result, receipt and others
	Text string // parts that came from outside are not cleaned
}

// Trace looks for a job, by any of its ids, in the databases of both roles.
func (d Databases) Trace(ctx context.Context, id string) (all []TracedJob, err error) {
	for _, role := range []string{"provider", "buyer"} {
		k, err := d.openToRead(ctx, role)
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
			all = append(all, tracedJob(role, t))
		}
	}

	return all, nil
}

func tracedJob(role string, t store.Trace) TracedJob {
	job := TracedJob{Role: role, RequestID: t.RequestID, Names: map[string][]string{}}
	for kind, values := range t.Names.Names {
		job.Names[string(kind)] = values
	}
	for _, l := range t.Lines {
		job.Lines = append(job.Lines, TraceLine(l))
	}
	return job
}

// LastAudit is the end of the audit trail, of one agent or, for "", of all.
func (d Databases) LastAudit(ctx context.Context, agent string, n int) (lines []AuditLine, err error) {
	k, err := store.Open(ctx, d.c.DataDir("provider"), store.Options{ReadOnly: true, Logger: d.c.log})
	if err != nil {
		return nil, advice.Hint(err, advice.RunProvider+" makes the first lines")
	}
	err = k.View(ctx, func(tx *store.Tx) error {
		last, err := tx.LastAuditLines(agent, n)
		for _, l := range last {
			lines = append(lines, AuditLine{At: l.At, Event: l.EventType, Subject: l.Subject, Details: l.Metadata})
		}
		return err
	})
	return lines, cmp.Or(err, k.Close())
}

// Messages is the log of what agents said to each other, in a session or, if that is
// "", in all: at most limit lines, from the newest. What retention has deleted is not
// in it. There is none before the node's first run.
func (d Databases) Messages(ctx context.Context, session string, limit int) ([]message.LogLine, error) {
	k, err := d.openToRead(ctx, "provider")
	if err != nil || k == nil {
		return nil, err
	}
	lines, err := messageLog(ctx, k, session, limit)
	return lines, cmp.Or(err, k.Close())
}

// PruneReport is what pruning did.
type PruneReport = retention.Report

// PartPlan is what pruning would do to one part of jobs.
type PartPlan = pruning.PartPlan

// PrunePlan says what pruning would delete now, also beside a running provider; nothing
// before the first sale. trustClock is the operator's word that the clock is right.
func (d Databases) PrunePlan(ctx context.Context, trustClock bool) (plan []PartPlan, err error) {
	k, err := d.openToRead(ctx, "provider")
	if err != nil || k == nil {
		return nil, err
	}
	plan, err = k.Pruning().Plan(ctx, d.c.Retention.Kept(), trustClock)
	err = cmp.Or(err, k.Close())
	if clock := (*pruning.ClockError)(nil); errors.As(err, &clock) {
		err = advice.Hint(clock, clockHint)
	}
	return plan, err
}

// clockHint is what to do about a clock that is not believed.
const clockHint = "set the clock of this machine; if it is right, " + advice.TrustClock + " says so"

// Prune deletes what the provider need not keep any longer: by the running provider, or
// where none runs, here. Then blobs wait for it. trustClock is the operator's word that
// the clock is right, however far it has moved.
func (d Databases) Prune(ctx context.Context, trustClock bool) (done PruneReport, err error) {
	o := pruneOrder{TrustClock: trustClock}
	err = d.act(ctx, pruneNow, o, &done, func(k *store.Store) error {
		done, err = o.run(ctx, retention.New(k.Pruning(), d.c.Retention.Kept(), nil, d.c.log))
		return err
	})
	if err == nil && done.Clock != nil {
		err = advice.Hint(done.Clock, clockHint)
	}
	return done, err
}

// Dispute notes that a sold job is disputed, or no longer, by the running provider or
// here. Of a disputed job nothing is pruned.
func (d Databases) Dispute(ctx context.Context, requestID string, open bool) error {
	o := disputeOrder{RequestID: requestID, Open: open}
	return d.act(ctx, setDispute, o, &o, func(k *store.Store) error { return k.Pruning().SetDispute(ctx, requestID, open) })
}

// act has the running provider follow an order, or where none runs, does here in its
// database. Before the first sale there is nothing to do.
func (d Databases) act(ctx context.Context, order string, req, into any, here func(*store.Store) error) error {
	daemon, err := host.Dial(ctx, d.c.controlSocket())
	if err == nil {
		return daemon.Node(ctx, order, req, into)
	}
	if !errors.Is(err, host.ErrNoNode) {
		return err
	}

	dir := d.c.DataDir("provider")
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	k, err := store.Open(ctx, dir, store.Options{Logger: d.c.log})
	if err != nil {
		return err
	}
	return cmp.Or(here(k), k.Close())
}

// Backup copies a role's database while it is in use into a new file, and checks the
// copy.
func (d Databases) Backup(ctx context.Context, role, out string) error {
	k, err := store.Open(ctx, d.c.DataDir(role), store.Options{ReadOnly: true, Old: true, Logger: d.c.log})
	if err != nil {
		return advice.Hint(err, "the first "+advice.RunProvider+", or "+advice.Purchase+", makes the database of its role: is "+advice.NameRole+" the right one?")
	}
	return advice.Hint(cmp.Or(k.Backup(ctx, out), k.Close()), "is there room on the disk?")
}

// Restore puts a backup in the place of a role's database and says where the old one
// is; "" if there was none.
func (d Databases) Restore(ctx context.Context, role, from string) (kept string, err error) {
	kept, err = store.Restore(ctx, d.c.DataDir(role), from, store.Side(role))
	return kept, restoreHint(err)
}

// restoreHint says what can be done about a backup that was not put back.
func restoreHint(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlite.ErrForeign):
		return advice.Hint(err, "it is the other role's; name its "+advice.NameRole+", or another backup")
	case errors.Is(err, sqlite.ErrLocked):
		return advice.Hint(err, "stop the node first; the backup itself is not changed")
	case errors.Is(err, sqlite.ErrLiveFile):
		return advice.Hint(err, "only what "+advice.BackUp+" wrote can be put back; to make a backup of this file, put it and its -wal file into a data folder of their own and back that up")
	case errors.Is(err, archive.ErrNoSwap):
		return advice.Hint(err, "name a folder below it as node.data_dir and restore again; nothing is changed")
	case sqlite.IsFull(err):
		return err
	case sqlite.IsDamaged(err) || errors.Is(err, sqlite.ErrUnreleased) || errors.Is(err, sqlite.ErrTooNew):
		err = errors.New(err.Error()) // the backup is: the hints for a database of the node are not for it
	}
	return advice.Hint(err, "name another backup; this one is not changed")
}

// CopiedNode says what of a node's data folder was copied.
type CopiedNode = archive.Report

// BackupAll copies the whole data folder while it is in use into a new folder. say hears of
// each database.
func (d Databases) BackupAll(ctx context.Context, out string, say func(string)) (CopiedNode, error) {
	made, err := archive.Write(ctx, d.c.DataDir(""), out, say)
	hint := "is there room on the disk?"
	switch {
	case errors.Is(err, archive.ErrLink):
		hint = "move what it leads to into the data folder, or remove the link"
	case errors.Is(err, fs.ErrNotExist):
		hint = "the first " + advice.RunProvider + ", or " + advice.Purchase + ", makes the data folder"
	}
	return made, advice.Hint(err, hint)
}

// RestoreAll puts a backup in the place of the whole data folder and says where what was
// there is; "" if there was nothing.
func (d Databases) RestoreAll(ctx context.Context, from string) (kept string, made CopiedNode, err error) {
	kept, made, err = archive.Restore(ctx, d.c.DataDir(""), from)
	return kept, made, restoreHint(err)
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
