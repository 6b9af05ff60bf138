package server

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// store is the relay's own database.
type store struct {
	db    *sqlite.DB
	quota quota
}

func openStore(ctx context.Context, dir string, eventBytes int64, own []string, log *slog.Logger) (*store, error) {
	q, err := newQuota(eventBytes, own)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	db, err := sqlite.Open(ctx, filepath.Join(dir, "relay.db"), sqlite.Options{
		Migrations:    migrations,
		ExclusiveLock: true,
		Logger:        log,
	})
	if err != nil {
		return nil, err
	}
	if err := db.Update(ctx, q.markOwn); err != nil {
		return nil, errors.Join(fmt.Errorf("mark the operator's events: %w", err), db.Close())
	}

	return &store{db, q}, nil
}

func (s *store) close() error { return s.db.Close() }

// outcome is the result of storing an event.
type outcome int

const (
	outcomeStored     outcome = iota
	outcomeDuplicate          // the same event is stored
	outcomeSuperseded         // a newer version is stored
	outcomeDeleted            // its author deleted it
	outcomeCrowded            // its author has too many replaceable or addressable events
	outcomeFull               // the operator's own fill the space for such events
)

func (o outcome) answer() (accepted bool, text string) {
	switch o {
	case outcomeDuplicate:
		return true, duplicateText
	case outcomeSuperseded:
		return true, "duplicate: have a newer version"
	case outcomeDeleted:
		return false, "blocked: its author deleted this event"
	case outcomeCrowded:
		return false, "blocked: this key has too many replaceable events"
	case outcomeFull:
		return false, "error: no room for more replaceable events"
	}

	return true, ""
}

func (s *store) has(id string) (found bool, err error) {
	err = s.db.View(context.Background(), func(tx *sqlite.Tx) error {
		found, err = exists(tx, "SELECT 1 FROM events WHERE id = ?", unhex(id))
		return err
	})
	return found, err
}

// put stores verified events in one transaction and returns once it is durable.
func (s *store) put(batch []*job) ([]outcome, error) {
	outcomes := make([]outcome, len(batch))
	err := s.db.Update(context.Background(), func(tx *sqlite.Tx) error {
		added := tally{}
		for i, j := range batch {
			o, err := s.putOne(tx, j.event, j.raw, added)
			if err != nil {
				return err
			}
			outcomes[i] = o
		}

		if err := added.enter(tx); err != nil {
			return err
		}
		return s.quota.makeRoom(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	return outcomes, nil
}

// putOne stores an event and adds its size to the tally of the batch.
func (s *store) putOne(tx *sqlite.Tx, ev *nostr.Event, raw []byte, added tally) (outcome, error) {
	address, replaceable := nip01.Address(ev)
	if o, err := isStored(tx, ev, address); err != nil || o != outcomeStored {
		return o, err
	}
	keys := tagKeys(ev)
	size := chargedSize(ev, raw, len(keys))
	if replaceable {
		if err := added.enter(tx); err != nil {
			return outcomeStored, err
		}
		o, err := s.replace(tx, ev, address, size)
		if err != nil || o != outcomeStored {
			return o, err
		}
	}

	if err := insert(tx, ev, raw, address, keys, size, s.quota.own[ev.PubKey]); err != nil {
		return outcomeStored, err
	}
	added.add(ev.PubKey, size, replaceable)
	if ev.Kind != nostr.KindDeletion {
		return outcomeStored, nil
	}
	if err := added.enter(tx); err != nil {
		return outcomeStored, err
	}

	return outcomeStored, applyDeletion(tx, ev)
}

// isStored reports whether the event is stored already, or was deleted.
func isStored(tx *sqlite.Tx, ev *nostr.Event, address string) (outcome, error) {
	var alreadyStored, deleted bool
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM events WHERE id = ?),
		EXISTS (SELECT 1 FROM deleted WHERE pubkey = ? AND (target = ? OR (target = ? AND until >= ?)))`,
		unhex(ev.ID), unhex(ev.PubKey), ev.ID, address, int64(ev.CreatedAt)).Scan(&alreadyStored, &deleted)

	switch {
	case err != nil || alreadyStored:
		return outcomeDuplicate, err
	case ev.Kind == nostr.KindDeletion:
		return outcomeStored, nil // "deletion request against a deletion request has no effect"
	case deleted:
		return outcomeDeleted, nil
	case ev.Kind != nostr.KindGiftWrap:
		return outcomeStored, nil
	}

	for _, tag := range ev.Tags { // for a gift wrap: deleted by one of its recipients
		if len(tag) < 2 || tag[0] != "p" || !nostr.IsValid32ByteHex(tag[1]) {
			continue
		}
		if deleted, err = exists(tx, "SELECT 1 FROM deleted WHERE pubkey = ? AND target = ?", unhex(tag[1]), ev.ID); err != nil || deleted {
			return outcomeDeleted, err
		}
	}

	return outcomeStored, nil
}

// replace removes the older version at the event's address, so that the event can be
// stored. It keeps the stored version if that is newer, or equally old with a lower
// id, or if there is no space for the difference in size.
func (s *store) replace(tx *sqlite.Tx, ev *nostr.Event, address string, size int64) (outcome, error) {
	var (
		seq, created, oldSize int64
		id, raw               []byte
	)
	err := tx.QueryRow("SELECT seq, created_at, id, size, raw FROM events WHERE address = ?", address).
		Scan(&seq, &created, &id, &oldSize, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return s.quota.admits(tx, ev.PubKey, size)
	}
	if err != nil {
		return outcomeStored, err
	}
	if created > int64(ev.CreatedAt) || created == int64(ev.CreatedAt) && hex.EncodeToString(id) < ev.ID {
		return outcomeSuperseded, nil
	}
	if o, err := s.quota.admits(tx, ev.PubKey, size-oldSize); err != nil || o != outcomeStored {
		return o, err
	}

	return outcomeStored, remove(tx, seq, raw) // if admits has just evicted it, this does nothing
}

func insert(tx *sqlite.Tx, ev *nostr.Event, raw []byte, address string, keys []int64, size int64, own bool) error {
	var expires, addr any
	if unix, ok := nip01.Expiration(ev); ok {
		expires = unix
	}
	if address != "" {
		addr = address
	}
	res, err := tx.Exec(`INSERT INTO events (id, pubkey, kind, created_at, expires_at, address, size, raw, own)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		unhex(ev.ID), unhex(ev.PubKey), ev.Kind, int64(ev.CreatedAt), expires, addr, size, raw, own)
	if err != nil {
		return err
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return err
	}

	for _, key := range keys {
		if _, err := tx.Exec("INSERT INTO tags (key, created_at, seq) VALUES (?, ?, ?)",
			key, int64(ev.CreatedAt), seq); err != nil {
			return err
		}
	}

	return nil
}

// remove deletes a stored event and its index entries, which are derived from raw.
func remove(tx *sqlite.Tx, seq int64, raw []byte) error {
	ev, err := nip01.ParseEvent(raw, storedLimits)
	if err != nil {
		return fmt.Errorf("read stored event: %w", err)
	}

	for _, key := range tagKeys(&ev) {
		if _, err := tx.Exec("DELETE FROM tags WHERE key = ? AND created_at = ? AND seq = ?",
			key, int64(ev.CreatedAt), seq); err != nil {
			return err
		}
	}

	if ev.Kind == nostr.KindDeletion {
		if err := forgetDeletion(tx, &ev); err != nil {
			return err
		}
	}

	_, err = tx.Exec("DELETE FROM events WHERE seq = ?", seq)
	return err
}

// storedLimits are wide enough for events stored before the limits were lowered.
var storedLimits = nip01.Limits{MaxTags: 1 << 20}

// tagKeys are the index keys of the event's single-letter tags, each once.
func tagKeys(ev *nostr.Event) []int64 {
	var keys []int64
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && nip01.IsIndexed(tag[0]) {
			keys = append(keys, tagKey(tag[0], tag[1]))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func tagKey(name, value string) int64 {
	sum := sha256.Sum256([]byte(name + value)) // the name is one byte
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func exists(tx *sqlite.Tx, query string, args ...any) (bool, error) {
	var one int
	err := tx.QueryRow(query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// unhex decodes hex that the parser has checked.
func unhex(s string) []byte {
	b, _ := hex.DecodeString(s)
	return b
}

// recentIDs is the least number of remembered ids; the most is twice that.
const recentIDs = 1 << 15

// recent remembers the ids of the events stored last, in two generations. Most
// duplicates come soon after the first copy, so only ids found here are looked up in
// the store before their signature is checked. A remembered event may be gone.
type recent struct {
	mu         sync.Mutex
	young, old map[[32]byte]struct{}
}

func newRecent() *recent { return &recent{young: map[[32]byte]struct{}{}} }

func (r *recent) has(id string) bool {
	k := idKey(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[k]; ok {
		return true
	}
	_, ok := r.old[k]
	return ok
}

func (r *recent) add(id string) {
	k := idKey(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= recentIDs {
		r.old, r.young = r.young, map[[32]byte]struct{}{}
	}
	r.young[k] = struct{}{}
}

// idKey decodes an id that the parser has checked.
func idKey(id string) (k [32]byte) {
	_, _ = hex.Decode(k[:], []byte(id))
	return k
}
