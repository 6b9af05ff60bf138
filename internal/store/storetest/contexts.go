package storetest

import (
	"fmt"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/internal/store"
)

// PutSegments puts texts on the thread root, which it creates.
func PutSegments(t testing.TB, k *DB, texts ...string) (ids []curator.ID) {
	t.Helper()
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.EnsureThread("root", "p"); err != nil {
			return err
		}
		for _, text := range texts {
			id, err := tx.PutSegment("root", "text/plain", []byte(text))
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	return ids
}

// Segments are those of a thread that are not pruned.
func Segments(t testing.TB, k *DB, thread string) (list []curator.Segment) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) (err error) {
		list, err = tx.Segments(thread, 0)
		return err
	})
	return list
}

// Original is the bytes of a segment as they were put.
func Original(t testing.TB, k *DB, thread string, id curator.ID) string {
	t.Helper()
	var data []byte
	k.Read(t, func(tx *store.Tx) (err error) {
		data, err = tx.SegmentContent(thread, id)
		return err
	})
	return string(data)
}

// Fold is the change of a segment from expanded to folded.
func Fold(id curator.ID) curator.Change {
	return curator.Change{ID: id, From: curator.Expanded, To: curator.Folded, Relevance: 0.1, Summary: fmt.Sprint("summary of ", id)}
}
