package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
)

// publishBatch is how many events go to the stream at once.
const publishBatch = 64

// publisher copies the outbox to the stream, and our records to the wire. It is the only
// one that writes there.
type publisher struct {
	*core
	checked bool              // the stream was compared with the database
	told    map[string][]byte // the records that the wire has; nil before they were read
	failure error             // of the last round; guarded by core.mu
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	pause := time.Second
	for ctx.Err() == nil {
		err := p.round(ctx)
		p.note(err)
		if err != nil {
			p.checked, p.told = false, nil // what the wire has is not known now
			p.Logger.Warn("events wait to be published", "error", err)
			wait(ctx, pause, nil)
			pause = min(2*pause, heartbeat)
			continue
		}
		pause = time.Second
		wait(ctx, heartbeat, p.outgoing)
	}
}

func (p *publisher) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

func (p *publisher) lastFailure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// round publishes all that is there to publish.
func (p *publisher) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	if !p.checked {
		if err := p.compare(ctx); err != nil {
			return fmt.Errorf("compare the stream with the outbox: %w", err)
		}
		p.checked = true
	}

	for {
		more, err := p.publish(ctx)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if !more {
			break
		}
	}
	if err := p.tell(ctx); err != nil {
		return fmt.Errorf("write the records: %w", err)
	}
	return nil
}

// place is where the outbox stands, and the event at a sequence of it, if it is kept.
func (p *publisher) place(ctx context.Context, at uint64) (place store.Place, row *store.Row, err error) {
	err = p.db.View(ctx, func(tx *store.Tx) error {
		if place, err = (store.Outbox{Tx: tx}).Place(); err != nil {
			return err
		}
		rows, err := store.Outbox{Tx: tx}.Rows(at, 1)
		if err == nil && len(rows) > 0 && rows[0].Seq == at {
			row = &rows[0]
		}
		return err
	})
	return place, row, err
}

// compare makes the stream a copy of the outbox. A stream that is behind gets the rest. A
// stream that is ahead, has holes, or is another one was lost or restored, or the
// database was: then a new stream begins, with a new epoch, from the lowest sequence
// that is kept.
func (p *publisher) compare(ctx context.Context) error {
	info, err := p.Wire.Outbox().Info(ctx)
	if err != nil && !errors.Is(err, wire.ErrNoStream) {
		return err
	}
	place, row, err2 := p.place(ctx, info.Last)
	if err2 != nil {
		return err2
	}

	why := ""
	switch {
	case err != nil:
		why = "there is no stream"
	case info.Epoch != place.Epoch:
		why = "the stream is of another epoch"
	case info.Last >= place.Next:
		why = "the stream is ahead of the outbox"
	case info.Last+1 < place.First || info.First > place.First:
		why = "the stream lost its beginning"
	case info.Kept != info.Last+1-info.First:
		why = "the stream has holes"
	case row != nil && info.Kept > 0:
		same, err := p.holds(ctx, row)
		if err != nil {
			return err
		}
		if !same {
			why = "the stream has another event in the place of one of ours"
		}
	}
	if why != "" {
		return p.begin(ctx, place, why)
	}

	// A part of the last batch may have come, or the stream's end was lost.
	if info.Last == place.Published {
		return nil
	}
	return p.db.Update(ctx, func(tx *store.Tx) error { return store.Outbox{Tx: tx}.SetPublished(info.Last) })
}

// holds says whether the stream has this event at its sequence.
func (p *publisher) holds(ctx context.Context, row *store.Row) (bool, error) {
	messages, err := p.Wire.Outbox().Read(ctx, row.Seq, 1)
	if err != nil {
		return false, err
	}
	return len(messages) == 1 && messages[0].Seq == row.Seq && bytes.Equal(messages[0].Data, row.Body), nil
}

// begin replaces the stream. The epoch is durable before the stream has it: a crash
// between the two leads here again.
func (p *publisher) begin(ctx context.Context, place store.Place, why string) error {
	epoch := event.NewID("route-epoch-", p.Now())
	err := p.db.Update(ctx, func(tx *store.Tx) error {
		if place.Epoch != "" {
			if err := (store.Inbox{Tx: tx}).Report(p.Node, "new_epoch", why); err != nil {
				return err
			}
		}
		return store.Outbox{Tx: tx}.SetEpoch(epoch)
	})
	if err != nil {
		return err
	}
	p.Logger.Info("a new stream begins", "epoch", epoch, "why", why)
	return p.Wire.Outbox().Reset(ctx, epoch, place.First)
}

// publish copies the next events, and says whether there may be more. The append is held
// to the sequence, so a second writer fails it, and is found by compare.
func (p *publisher) publish(ctx context.Context) (more bool, err error) {
	var rows []store.Row
	err = p.db.View(ctx, func(tx *store.Tx) error {
		place, err := store.Outbox{Tx: tx}.Place()
		if err == nil {
			rows, err = store.Outbox{Tx: tx}.Rows(place.Published+1, publishBatch)
		}
		return err
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}

	var messages []wire.Message
	for _, r := range rows {
		messages = append(messages, wire.Message{Seq: r.Seq, ID: fmt.Sprintf("%s:%d", r.EventID, r.Attempt), Data: r.Body})
	}
	if err := p.Wire.Outbox().Append(ctx, messages); err != nil {
		return false, err
	}
	last := rows[len(rows)-1].Seq
	return len(rows) == publishBatch, p.db.Update(ctx, func(tx *store.Tx) error { return store.Outbox{Tx: tx}.SetPublished(last) })
}

// tell brings the records of the wire up to those of the database.
func (p *publisher) tell(ctx context.Context) (err error) {
	if p.told == nil {
		if p.told, err = p.Wire.Records().All(ctx); err != nil {
			return err
		}
	}
	var own map[string][]byte
	err = p.db.View(ctx, func(tx *store.Tx) error {
		own, err = store.Control{Tx: tx}.Of(p.Node)
		return err
	})
	if err != nil {
		return err
	}

	for key, value := range own {
		if bytes.Equal(p.told[key], value) {
			continue
		}
		if err := p.Wire.Records().Put(ctx, key, value); err != nil {
			return err
		}
		p.told[key] = value
	}
	for key := range p.told {
		if own[key] != nil {
			continue
		}
		if err := p.Wire.Records().Delete(ctx, key); err != nil {
			return err
		}
		delete(p.told, key)
	}
	return nil
}

// watermark is the sequence up to which every gateway has read whose cursor counts: it is
// active, its lease has not expired, and it is of this stream. A cursor that nobody can
// have is refused. The cursors are returned as they were told.
func (p *publisher) watermark(ctx context.Context) (upTo uint64, cursors []event.Cursor, err error) {
	place, _, err := p.place(ctx, 0)
	if err != nil {
		return 0, nil, err
	}
	told, err := p.Wire.Cursors(ctx)
	if err != nil {
		return 0, nil, err
	}

	upTo, now := place.Published, p.Now()
	for node, doc := range told {
		c, err := event.ParseRecord[event.Cursor](doc)
		if err == nil && (c.ConsumerNodeID != node || c.SourceNodeID != p.Node || c.Epoch == place.Epoch && c.LastSeq >= place.Next) {
			err = event.Refuse("cursor", "lastSeq", "%s says it has read %d of %s", node, c.LastSeq, c.SourceNodeID)
		}
		if err != nil {
			err := p.db.Update(ctx, func(tx *store.Tx) error { return store.Inbox{Tx: tx}.Refuse(node, "cursor") })
			if err != nil {
				return 0, nil, err
			}
			continue
		}
		cursors = append(cursors, c)
		counts := c.Status != "removed" && c.Epoch == place.Epoch && c.LeaseExpiresAt.After(now) && c.LeaseExpiresAt.Before(now.Add(cursorLease+maxSkew))
		if counts {
			upTo = min(upTo, c.LastSeq)
		}
	}
	return upTo, cursors, nil
}

// compact drops what every gateway has read that counts, and that those who are away
// cannot expect any more: first from the database, so that the stream never begins after
// the outbox.
func (p *publisher) compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	upTo, _, err := p.watermark(ctx)
	if err != nil {
		return err
	}
	var first uint64
	err = p.db.Update(ctx, func(tx *store.Tx) error {
		first, err = store.Outbox{Tx: tx}.Compact(upTo, tx.Now.Add(-keepFor), 1000)
		return err
	})
	if err != nil || first <= 1 {
		return err
	}
	return p.Wire.Outbox().Purge(ctx, first-1)
}
