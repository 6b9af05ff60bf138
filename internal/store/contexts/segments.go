// Package contexts keeps the context of threads: segments, their tiers and
// summaries, and what becomes of them when a thread returns.
package contexts

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("content_pins", "context_segments", "context_states")
}

// Contexts is a transaction as far as it is about the context of threads.
type Contexts struct{ journal.Journal }

// In is the transaction tx as Contexts.
func In(tx *row.Tx) Contexts { return Contexts{journal.Journal{Tx: tx}} }

// Bounds of a thread's context.
const (
	// MaxSegmentBytes bounds one segment: as much as a pipeline's message may hold.
	MaxSegmentBytes = 16 << 20
	maxContentType  = 128
	MaxSegments     = 2000 // a thread
)

// PutSegment adds a piece of context to an Active thread (ErrNotFound,
// ErrConflict). It is Expanded, of relevance 1: what was just said matters.
// ErrTooLarge if the thread has 2,000, or content is over MaxSegmentBytes.
func (tx Contexts) PutSegment(thread, contentType string, content []byte) (curator.ID, error) {
	if !isContentType(contentType) {
		return 0, fmt.Errorf("content type %.40q: %w", contentType, row.ErrInvalid)
	}
	if len(content) > MaxSegmentBytes {
		return 0, fmt.Errorf("segment of %d bytes, at most %d: %w", len(content), MaxSegmentBytes, row.ErrTooLarge)
	}

	switch state, err := tx.StateOf(thread); {
	case err != nil:
		return 0, fmt.Errorf("put segment: %w", err)
	case state != journal.ThreadActive:
		return 0, fmt.Errorf("put segment: thread is %s: %w", state, row.ErrConflict)
	}

	var n int
	err := tx.QueryRow("SELECT count(*) FROM context_segments WHERE thread_id = ?", thread).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("put segment: %w", err)
	}
	if n >= MaxSegments {
		return 0, fmt.Errorf("put segment: thread has %d: %w", n, row.ErrTooLarge)
	}

	digest, err := tx.AddContent(content)
	if err != nil {
		return 0, err
	}
	var id curator.ID
	err = tx.QueryRow(`INSERT INTO context_segments(thread_id, content, content_type, byte_size, token_estimate, created_ms)
		VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
		thread, digest[:], contentType, len(content), curator.EstimateTokens(len(content)), tx.Now().UnixMilli()).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("put segment: %w", err)
	}
	return id, tx.appendSegmentState(curator.Change{ID: id, To: curator.Expanded, Relevance: 1}, nil)
}

// isContentType is a coarse check: printable ASCII, as in a media type.
func isContentType(s string) bool {
	return s != "" && len(s) <= maxContentType && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func (tx Contexts) appendSegmentState(c curator.Change, summary *hashing.Digest) error {
	_, err := tx.Exec("INSERT INTO context_states(segment_id, status, relevance, summary, asked_for, at_ms) VALUES (?, ?, ?, ?, ?, ?)",
		int64(c.ID), string(c.To), c.Relevance, row.BlobPtr(summary), row.Blob(c.AskedFor), tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record segment state: %w", err)
	}
	return nil
}

// liveSegments are those of the segments of a thread that are not pruned.
const liveSegments = `SELECT c.id, c.thread_id, c.content_type, c.relevance, c.status, c.byte_size, c.token_estimate,
		c.asked_for, c.summary, s.bytes,
		CASE WHEN ?2 > 0 THEN (SELECT substr(o.bytes, 1, ?2) FROM contents o WHERE o.digest = c.content) END
	FROM context_current c LEFT JOIN contents s ON s.digest = c.summary
	WHERE c.thread_id = ?1 AND c.status <> 'Pruned'`

// Segments returns the segments of a thread that are not pruned, the oldest
// first, with the first head bytes of each original. Those bytes are not
// verified; SegmentContent's are.
func (tx Contexts) Segments(thread string, head int) ([]curator.Segment, error) {
	rows, err := tx.Query(liveSegments+" ORDER BY c.id", thread, head)
	if err != nil {
		return nil, fmt.Errorf("read context: %w", err)
	}
	defer rows.Close()

	var list []curator.Segment
	for rows.Next() {
		s, err := scanSegment(rows)
		if err != nil {
			return nil, fmt.Errorf("read context: %w", err)
		}
		list = append(list, s)
	}

	return list, rows.Err()
}

func scanSegment(rows *sql.Rows) (s curator.Segment, err error) {
	var summary hashing.Digest
	var text []byte
	err = rows.Scan(&s.ID, &s.ThreadID, &s.ContentType, &s.Relevance, &s.Status, &s.ByteSize, &s.TokenEstimate,
		row.Into(&s.AskedFor), row.Into(&summary), &text, &s.Content)
	if err == nil && !summary.IsZero() && hashing.Bytes(text) != summary {
		err = fmt.Errorf("summary of %s: %w", s.ID, row.ErrCorrupt)
	}
	s.Summary = string(text)
	return s, err
}

// SegmentContent returns the original of a segment, in whatever tier it is.
// ErrNotFound if the thread has no such segment, or it was pruned; ErrCorrupt if
// the stored bytes changed.
func (tx Contexts) SegmentContent(thread string, id curator.ID) ([]byte, error) {
	var digest hashing.Digest
	err := tx.QueryRow("SELECT content FROM context_current WHERE id = ? AND thread_id = ? AND status <> 'Pruned'", int64(id), thread).
		Scan(row.Into(&digest))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("segment %s: %w", id, row.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return tx.Content(digest)
}
