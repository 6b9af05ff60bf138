package journal

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// Log is the journal and the audit log of a pipeline, and its judge of directives.
type Log struct {
	db      *row.DB
	profile string
	log     *slog.Logger
}

var (
	_ pipeline.Journal = (*Log)(nil)
	_ pipeline.Audit   = (*Log)(nil)
)

// NewLog is the log of a pipeline. A thread that has no record yet gets one under
// profile; log hears what could not be recorded.
func NewLog(db *row.DB, profile string, log *slog.Logger) *Log {
	return &Log{db: db, profile: profile, log: log}
}

// Append records messages that passed, and the job that their thread works for.
// They are durable when Append returns, all or none. What a handler says confirms
// that it has what it was sent before; a message that stays without an answer is
// confirmed when its thread returns.
func (l *Log) Append(ctx context.Context, entries ...pipeline.Entry) error {
	_, err := l.AppendCall(ctx, "", "", entries...)
	return err
}

// AppendCall is Append with the id of the call that follows, which becomes a name
// of the job, or "". at is the time that the entries carry.
func (l *Log) AppendCall(ctx context.Context, requestID, callID string, entries ...pipeline.Entry) (at time.Time, err error) {
	err = l.db.UpdateGathered(ctx, func(rows *row.Tx) error {
		tx := Journal{rows}
		at = tx.Now()
		for _, e := range entries {
			if err := l.record(tx, e); err != nil {
				return err
			}
		}
		if callID == "" {
			return nil
		}
		return tx.Correlate(requestID, NameCall, callID)
	})
	return at, err
}

func (l *Log) record(tx Journal, e pipeline.Entry) error {
	r, err := RetentionOf(e.Retention)
	if err != nil {
		return err
	}
	entry := Entry{
		Thread: string(e.Thread), Direction: Direction(e.Direction), Handler: e.Handler, PayloadTag: e.PayloadTag,
		PayloadHash: e.PayloadHash, Retention: r,
	}
	add := func() error {
		_, err := tx.AppendJournal(entry)
		return err
	}
	if e.Content != "" {
		add = func() error {
			_, err := tx.AppendJournalPayload(entry, []byte(e.Content))
			return err
		}
	}

	// Only the first message of a thread finds no record of it.
	if err = add(); sqlite.IsForeignKey(err) {
		if err := tx.EnsureThread(entry.Thread, cmp.Or(e.Profile, l.profile)); err != nil {
			return err
		}
		err = add()
	}

	if err == nil && r == PruneOnDelivery && e.Direction == pipeline.Inbound {
		err = tx.ConfirmTo(entry.Thread, e.Handler)
	}
	return err
}

// Bounds of what an audit line repeats of a rejected message.
const (
	maxAuditName    = 256
	maxAuditSubject = 512
)

// Reject leaves one audit line of a message that was refused, and nothing in
// the journal (K-3). It is written even if the message's own context has ended.
func (l *Log) Reject(ctx context.Context, r pipeline.Reject) {
	err := l.db.Update(context.WithoutCancel(ctx), func(tx *row.Tx) error {
		return Journal{tx}.Audit(string(r.Reason), row.Clip(string(r.Thread), maxAuditSubject), map[string]string{
			"tag": row.Clip(r.Tag, maxAuditName), "profile": row.Clip(r.Profile, maxAuditName), "sender": row.Clip(r.Sender, maxAuditName),
		})
	})
	if err != nil {
		l.log.Error("rejected message is not in the audit log", "reason", r.Reason, "error", err)
	}
}

// DirectiveLive reports whether a directive exists and still stands.
func (l *Log) DirectiveLive(ctx context.Context, id string) (live bool, err error) {
	err = l.db.View(ctx, func(tx *row.Tx) error {
		live, err = Journal{tx}.DirectiveLive(id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("judge directive: %w", err)
	}
	return live, nil
}
