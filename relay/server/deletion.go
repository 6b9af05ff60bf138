package server

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// applyDeletion removes the events that a kind 5 event names, if its author may delete
// them.
func applyDeletion(tx *sqlite.Tx, ev *nostr.Event) error {
	for _, tag := range ev.Tags {
		if len(tag) < 2 {
			continue
		}

		var err error
		switch tag[0] {
		case "e":
			if nostr.IsValid32ByteHex(tag[1]) {
				err = deleteWhere(tx, ev, tag[1], "pubkey = ? AND id = ? AND kind <> 5", unhex(ev.PubKey), unhex(tag[1]))
				if err == nil {
					// A gift wrap is signed with a throwaway key, so its recipient
					// may delete it (NIP-59).
					err = removeWhere(tx, "id = ? AND kind = 1059 AND EXISTS (SELECT 1 FROM tags t WHERE t.key = ? AND t.created_at = events.created_at AND t.seq = events.seq)",
						unhex(tag[1]), tagKey("p", ev.PubKey))
				}
			}
		case "a":
			if ownAddress(tag[1], ev.PubKey) {
				err = deleteWhere(tx, ev, tag[1], "pubkey = ? AND address = ? AND created_at <= ?", unhex(ev.PubKey), tag[1], int64(ev.CreatedAt))
			}
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// ownAddress reports whether address is kind:pubkey:d of the author's.
func ownAddress(address, pubkey string) bool {
	kind, rest, ok := strings.Cut(address, ":")
	if !ok || !strings.HasPrefix(rest, pubkey+":") {
		return false
	}
	n, err := strconv.Atoi(kind)
	return err == nil && (nostr.IsReplaceableKind(n) || nostr.IsAddressableKind(n))
}

// deleteWhere removes the event that an author named and remembers the target.
func deleteWhere(tx *sqlite.Tx, ev *nostr.Event, target, where string, args ...any) error {
	if _, err := tx.Exec(`INSERT INTO deleted (target, pubkey, until) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET until = max(until, excluded.until)`,
		target, unhex(ev.PubKey), int64(ev.CreatedAt)); err != nil {
		return err
	}
	return removeWhere(tx, where, args...)
}

// removeWhere removes the one event of the condition, if it is there.
func removeWhere(tx *sqlite.Tx, where string, args ...any) error {
	var (
		seq int64
		raw []byte
	)
	err := tx.QueryRow("SELECT seq, raw FROM events WHERE "+where, args...).Scan(&seq, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}

	return remove(tx, seq, raw)
}

// forgetDeletion removes the tombstones of a deletion that is removed itself, except
// those that a later deletion has renewed.
func forgetDeletion(tx *sqlite.Tx, ev *nostr.Event) error {
	for _, tag := range ev.Tags {
		if len(tag) < 2 || tag[0] != "e" && tag[0] != "a" {
			continue
		}
		if _, err := tx.Exec("DELETE FROM deleted WHERE target = ? AND pubkey = ? AND until <= ?",
			tag[1], unhex(ev.PubKey), int64(ev.CreatedAt)); err != nil {
			return err
		}
	}
	return nil
}

// purge removes the events that have expired at now and returns their number.
func (s *store) purge(ctx context.Context, now time.Time) (int, error) {
	return s.removeAll(ctx, "expires_at <= ?", now.Unix())
}
