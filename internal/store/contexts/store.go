package contexts

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// Store keeps the context of threads for a curator.
type Store struct{ db *row.DB }

var _ curator.Store = Store{}

// NewStore is the store of the segments in a database.
func NewStore(db *row.DB) Store { return Store{db} }

func (s Store) update(ctx context.Context, fn func(tx Contexts) error) error {
	return s.db.Update(ctx, func(tx *row.Tx) error { return fn(In(tx)) })
}

func (s Store) view(ctx context.Context, fn func(tx Contexts) error) error {
	return s.db.View(ctx, func(tx *row.Tx) error { return fn(In(tx)) })
}

// Put adds a segment to an Active thread; see [Contexts.PutSegment], which does it
// together with other changes.
func (s Store) Put(ctx context.Context, thread pipeline.ThreadID, contentType string, content []byte) (id curator.ID, err error) {
	err = s.update(ctx, func(tx Contexts) error {
		id, err = tx.PutSegment(string(thread), contentType, content)
		return err
	})
	return id, err
}

// Segments returns a thread's segments that are not pruned, the oldest first; see
// [Contexts.Segments].
func (s Store) Segments(ctx context.Context, thread pipeline.ThreadID, head int) (list []curator.Segment, err error) {
	err = s.view(ctx, func(tx Contexts) error {
		list, err = tx.Segments(string(thread), head)
		return err
	})
	return list, err
}

// Original returns the bytes of a segment as they were put.
func (s Store) Original(ctx context.Context, thread pipeline.ThreadID, id curator.ID) (data []byte, err error) {
	err = s.view(ctx, func(tx Contexts) error {
		data, err = tx.SegmentContent(string(thread), id)
		return err
	})
	if errors.Is(err, row.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", curator.ErrUnknownSegment, err)
	}
	return data, err
}

// Apply changes segments, all or none.
func (s Store) Apply(ctx context.Context, thread pipeline.ThreadID, changes []curator.Change) error {
	return s.update(ctx, func(tx Contexts) error { return tx.ChangeSegments(string(thread), changes) })
}

// Return ends a thread.
func (s Store) Return(ctx context.Context, r curator.Returned) error {
	return s.update(ctx, func(tx Contexts) error { return tx.ReturnThread(r) })
}
