package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// PipelineLog is the journal and the audit log of a pipeline, and its judge of
// directives.
type PipelineLog struct {
	k       *Store
	profile string
}

var (
	_ pipeline.Journal = (*PipelineLog)(nil)
	_ pipeline.Audit   = (*PipelineLog)(nil)
)

// PipelineLog returns the log of a pipeline. A thread that has no record yet
// gets one under profile.
func (k *Store) PipelineLog(profile string) *PipelineLog {
	return &PipelineLog{k: k, profile: profile}
}

// Append records messages that passed, and the job that their thread works for.
// They are durable when Append returns, all or none. What a handler says confirms
// that it has what it was sent before; a message that stays without an answer is
// confirmed when its thread returns.
func (l *PipelineLog) Append(ctx context.Context, entries ...pipeline.Entry) error {
	_, err := l.AppendCall(ctx, "", "", entries...)
	return err
}

// AppendCall is Append with the id of the call that follows, which becomes a name
// of the job, or "". at is the time that the entries carry.
func (l *PipelineLog) AppendCall(ctx context.Context, requestID, callID string, entries ...pipeline.Entry) (at time.Time, err error) {
	err = l.k.updateGathered(ctx, func(tx *Tx) error {
		at = tx.now
		for _, e := range entries {
			if err := l.append(tx, e); err != nil {
				return err
			}
		}
		if callID == "" {
			return nil
		}
		return tx.Correlate(requestID, journal.NameCall, callID)
	})
	return at, err
}

func (l *PipelineLog) append(tx *Tx, e pipeline.Entry) error {
	r, err := journal.RetentionOf(e.Retention)
	if err != nil {
		return err
	}
	entry := journal.Entry{
		Thread: string(e.Thread), Direction: journal.Direction(e.Direction), Handler: e.Handler, PayloadTag: e.PayloadTag,
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

	if err == nil && r == journal.PruneOnDelivery && e.Direction == pipeline.Inbound {
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
func (l *PipelineLog) Reject(ctx context.Context, r pipeline.Reject) {
	err := l.k.Update(context.WithoutCancel(ctx), func(tx *Tx) error {
		return tx.Audit(string(r.Reason), row.Clip(string(r.Thread), maxAuditSubject), map[string]string{
			"tag": row.Clip(r.Tag, maxAuditName), "profile": row.Clip(r.Profile, maxAuditName), "sender": row.Clip(r.Sender, maxAuditName),
		})
	})
	if err != nil {
		l.k.log.Error("rejected message is not in the audit log", "reason", r.Reason, "error", err)
	}
}

// DirectiveLive reports whether a directive exists and still stands.
func (l *PipelineLog) DirectiveLive(ctx context.Context, id string) (live bool, err error) {
	err = l.k.View(ctx, func(tx *Tx) error {
		live, err = tx.DirectiveLive(id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("judge directive: %w", err)
	}
	return live, nil
}
