package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// ContextStore is the store as a curator sees it.
type ContextStore struct{ k *Store }

var _ curator.Store = ContextStore{}

// ContextStore returns the store of segments.
func (k *Store) ContextStore() ContextStore { return ContextStore{k} }

// Put adds a segment to an Active thread; see Tx.PutSegment, which does it
// together with other changes.
func (s ContextStore) Put(ctx context.Context, thread pipeline.ThreadID, contentType string, content []byte) (id curator.ID, err error) {
	err = s.k.Update(ctx, func(tx *Tx) error {
		id, err = tx.PutSegment(string(thread), contentType, content)
		return err
	})
	return id, err
}

// Segments returns a thread's segments that are not pruned, the oldest first; see
// Tx.Segments.
func (s ContextStore) Segments(ctx context.Context, thread pipeline.ThreadID, head int) (list []curator.Segment, err error) {
	err = s.k.View(ctx, func(tx *Tx) error {
		list, err = tx.Segments(string(thread), head)
		return err
	})
	return list, err
}

// Original returns the bytes of a segment as they were put.
func (s ContextStore) Original(ctx context.Context, thread pipeline.ThreadID, id curator.ID) (data []byte, err error) {
	err = s.k.View(ctx, func(tx *Tx) error {
		data, err = tx.SegmentContent(string(thread), id)
		return err
	})
	if errors.Is(err, row.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", curator.ErrUnknownSegment, err)
	}
	return data, err
}

// Apply changes segments, all or none.
func (s ContextStore) Apply(ctx context.Context, thread pipeline.ThreadID, changes []curator.Change) error {
	return s.k.Update(ctx, func(tx *Tx) error { return tx.ChangeSegments(string(thread), changes) })
}

// Return ends a thread.
func (s ContextStore) Return(ctx context.Context, r curator.Returned) error {
	return s.k.Update(ctx, func(tx *Tx) error { return tx.ReturnThread(r) })
}
