package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/hashing"
)

// readBatch is how many events are read, and kept in one transaction.
const readBatch = 64

// maxSeq is the highest sequence that the protocol can write.
const maxSeq = 1<<53 - 1

// reader reads the stream and the records of one peer, and believes nothing of either.
type reader struct {
	*books
	source string

	seen        hashing.Digest // of the records as they were last read
	recordsRead time.Time
	cursorTold  time.Time
	told        store.Cursor // as the peer has it

	failure error  // of the last round; guarded by core.mu
	last    uint64 // where the peer's stream ended; guarded by core.mu
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		remote, err := r.Wire.Dial(ctx, r.source)
		r.note(err)
		if err != nil {
			wait(ctx, heartbeat, nil)
			continue
		}
		r.follow(ctx, remote)
		if err := remote.Close(); err != nil {
			r.Logger.Warn("close the connection to a peer", "peer", r.source, "error", err)
		}
	}
}

// follow reads until ctx ends or the connection does.
func (r *reader) follow(ctx context.Context, remote wire.Remote) {
	for ctx.Err() == nil {
		more, pause, err := r.round(ctx, remote)
		r.note(err)
		switch {
		case errors.Is(err, wire.ErrClosed):
			wait(ctx, time.Second, nil)
			return
		case err != nil:
			wait(ctx, time.Second, remote.Wake())
		case !more:
			wait(ctx, pause, remote.Wake())
		}
	}
}

func (r *reader) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
}

// state is what the last round found.
func (r *reader) state() (last uint64, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.failure
}

// round reads one batch. Pause is how long to wait if there was no more.
func (r *reader) round(ctx context.Context, remote wire.Remote) (more bool, pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	pause = heartbeat
	if r.Now().Sub(r.recordsRead) >= recordInterval {
		if err := r.readRecords(ctx, remote); err != nil {
			return false, 0, err
		}
	} else {
		pause = recordInterval // what woke us may have been a record
	}

	info, err := remote.Info(ctx)
	if errors.Is(err, wire.ErrNoStream) {
		return false, pause, nil // the peer has just begun
	}
	if err != nil {
		return false, 0, err
	}
	if info.Last > maxSeq || info.First < 1 || info.First > info.Last+1 {
		return false, heartbeat, r.refuse(ctx, "stream")
	}
	r.mu.Lock()
	r.last = info.Last
	r.mu.Unlock()

	var c store.Cursor
	err = r.db.View(ctx, func(tx *store.Tx) error {
		c, err = store.Inbox{Tx: tx}.Cursor(r.source)
		return err
	})
	if err != nil {
		return false, 0, err
	}
	b := batch{info: info}
	if c.Epoch == info.Epoch && info.Last > c.LastSeq {
		b.messages, err = remote.Read(ctx, c.LastSeq+1, readBatch)
		b.oversized = errors.Is(err, wire.ErrTooLarge)
		if err != nil && !b.oversized {
			return false, 0, err
		}
	}

	was := c
	err = r.update(ctx, func(tx *store.Tx) error {
		c, err = r.take(tx, b)
		return err
	})
	if err != nil {
		return false, 0, err
	}
	if c.GapTo > 0 {
		pause = min(pause, max(gapTimeout-r.Now().Sub(c.GapSince), time.Millisecond))
	}
	moved := c.LastSeq != was.LastSeq
	if c.Epoch != was.Epoch {
		pause, moved = time.Second, was.Epoch == "" // a peer that changes it again and again is not followed at once
	}
	return moved && c.LastSeq < info.Last, pause, r.tellCursor(ctx, remote, c)
}

// batch is what one round read.
type batch struct {
	info      wire.Info
	messages  []wire.Message
	oversized bool // the message after these is
}

// take keeps what a batch says, and moves the cursor after it, in one transaction. The
// cursor does not pass a sequence that is missing before its timeout.
func (r *reader) take(tx *store.Tx, b batch) (store.Cursor, error) {
	inbox := store.Inbox{Tx: tx}
	c, err := inbox.Cursor(r.source)
	if err != nil {
		return c, err
	}
	if c.Epoch != b.info.Epoch {
		return r.restart(tx, c, b.info)
	}
	if len(b.messages) == 0 && !b.oversized && b.info.Last <= c.LastSeq {
		return c, nil
	}

	full := false
	for _, m := range b.messages {
		if m.Seq <= c.LastSeq { // a peer that sends what was not asked for
			return c, inbox.Refuse(r.source, "sequence")
		}
		if m.Seq > c.LastSeq+1 && !r.pass(tx, &c, m.Seq-1) {
			break
		}
		err := r.takeOne(tx, m)
		if full = errors.Is(err, store.ErrQueueFull); full {
			break
		}
		if err != nil {
			return c, err
		}
		c.LastSeq, c.GapTo, c.GapSince = m.Seq, 0, time.Time{}
	}

	switch {
	case full || c.GapTo > 0 && len(b.messages) > 0:
	case b.oversized:
		if err := inbox.Refuse(r.source, "oversized"); err != nil {
			return c, err
		}
		c.LastSeq, c.GapTo, c.GapSince = c.LastSeq+1, 0, time.Time{}
	case len(b.messages) == 0: // the end of the stream is missing
		r.pass(tx, &c, b.info.Last)
	}
	return c, inbox.SetCursor(c)
}

// restart begins to read a new stream of the peer. What it repeats is in the ledger.
func (r *reader) restart(tx *store.Tx, c store.Cursor, info wire.Info) (store.Cursor, error) {
	inbox := store.Inbox{Tx: tx}
	if len(info.Epoch) == 0 || len(info.Epoch) > 128 {
		return c, inbox.Refuse(r.source, "stream")
	}
	if c.Epoch != "" {
		if err := inbox.Report(r.source, "new_epoch", fmt.Sprintf("after %d of %s", c.LastSeq, c.Epoch)); err != nil {
			return c, err
		}
	}
	c = store.Cursor{Source: r.source, Epoch: info.Epoch, LastSeq: info.First - 1}
	return c, inbox.SetCursor(c)
}

// pass says whether the cursor may pass the sequences up to one, which are missing: not
// before the timeout, and then by the policy, with an incident.
func (r *reader) pass(tx *store.Tx, c *store.Cursor, to uint64) bool {
	if c.GapTo == 0 {
		c.GapTo, c.GapSince = to, tx.Now
		return false
	}
	c.GapTo = to
	if tx.Now.Sub(c.GapSince) < gapTimeout {
		return false
	}

	inbox := store.Inbox{Tx: tx}
	detail := fmt.Sprintf("%d to %d of %s are missing: %s", c.LastSeq+1, to, c.Epoch, r.GapPolicy)
	err := inbox.Report(r.source, "gap", detail)
	if err == nil && r.GapPolicy == Tombstone {
		err = inbox.Bury(r.source, c.LastSeq+1, to)
	}
	if err != nil {
		return false // the database fails; SetCursor says why
	}
	c.LastSeq, c.GapTo, c.GapSince = to, 0, time.Time{}
	return true
}

// takeOne reads one message. What is wrong with it is counted, and nothing of it kept.
func (r *reader) takeOne(tx *store.Tx, m wire.Message) error {
	inbox := store.Inbox{Tx: tx}
	buried, err := inbox.Buried(r.source, m.Seq)
	if err != nil {
		return err
	}
	if buried {
		return inbox.Refuse(r.source, "tombstone")
	}

	e, err := event.Parse(m.Data)
	switch {
	case err != nil:
	case e.SourceNodeID != r.source:
		err = event.Refuse("foreign", "sourceNodeId", "%s", e.SourceNodeID)
	case e.Seq != m.Seq:
		err = event.Refuse("sequence", "seq", "%d in the place of %d", e.Seq, m.Seq)
	default:
		err = r.receive(tx, e)
	}
	var refusal *event.Refusal
	if errors.As(err, &refusal) {
		return inbox.Refuse(r.source, refusal.Code)
	}
	return err
}

func (r *reader) refuse(ctx context.Context, code string) error {
	return r.db.Update(ctx, func(tx *store.Tx) error { return store.Inbox{Tx: tx}.Refuse(r.source, code) })
}

// tellCursor writes the cursor at the peer, when it has moved or its lease runs down.
func (r *reader) tellCursor(ctx context.Context, remote wire.Remote, c store.Cursor) error {
	now := r.Now()
	if c.Epoch == "" || c == r.told && now.Sub(r.cursorTold) < cursorLease/3 {
		return nil
	}
	status := event.Active
	if c.GapTo > 0 {
		status = "blocked"
	}
	doc, err := hashing.CanonicalValue(event.Cursor{
		ConsumerNodeID: r.Node, SourceNodeID: r.source, LastSeq: c.LastSeq, UpdatedAt: event.At(now), Status: status,
		LeaseExpiresAt: event.At(now.Add(cursorLease)), Epoch: c.Epoch,
	})
	if err != nil {
		return err
	}
	if err := remote.PutCursor(ctx, doc); err != nil {
		return err
	}
	r.told, r.cursorTold = c, now
	return nil
}

// readRecords keeps those of the peer's records that it may write.
func (r *reader) readRecords(ctx context.Context, remote wire.Remote) error {
	records, err := remote.Records(ctx)
	if err != nil {
		return err
	}
	r.recordsRead = r.Now()
	sum, err := hashing.SumValue(records)
	if err != nil || sum == r.seen {
		return err
	}

	good := map[string][]byte{}
	bad := 0
	for key, value := range records {
		if goodRecord(r.source, key, value) != nil || len(good) >= wire.MaxRecords {
			bad++
			continue
		}
		good[key] = value
	}
	err = r.update(ctx, func(tx *store.Tx) error {
		for range bad {
			if err := (store.Inbox{Tx: tx}).Refuse(r.source, "record"); err != nil {
				return err
			}
		}
		return store.Control{Tx: tx}.Replace(r.source, good)
	})
	if err != nil {
		return err
	}
	r.recordsChanged()
	r.seen = sum
	return nil
}
