package server

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// blobUse is the space that blobs take: all of them, and those of the operator's keys.
type blobUse struct{ all, own int64 }

func (u blobUse) minus(o blobUse) blobUse { return blobUse{u.all - o.all, u.own - o.own} }

// blobRoom bounds the space of blobs. A blob counts as its bytes plus ownedCost for
// each owner. It is the operator's if one of its owners is.
type blobRoom struct {
	total, each int64           // bounds for all blobs, and for a stranger's key
	own         map[string]bool // the operator's keys, hex
	keys        string          // the same as a JSON list

	mu       sync.Mutex
	stored   blobUse
	coming   blobUse          // of uploads that are received and being stored
	comingOf map[string]int64 // announced by the running uploads of each key
}

func newBlobRoom(cfg Config) *blobRoom {
	r := &blobRoom{
		total: cfg.Limits.BlobTotalBytes, each: cfg.Limits.BlobKeyBytes,
		own: map[string]bool{}, comingOf: map[string]int64{},
	}
	for _, key := range cfg.Owners {
		r.own[key] = true
	}
	r.keys, _ = jsonList(append([]string{}, cfg.Owners...)) // strings always marshal
	return r
}

// reserve is the part that is kept free for the operator's own keys.
func (r *blobRoom) reserve() int64 {
	if len(r.own) == 0 {
		return 0
	}
	return r.total / 4
}

// load counts the stored blobs that have an owner.
func (r *blobRoom) load(tx *sqlite.Tx) error {
	return tx.QueryRow(`SELECT (SELECT coalesce(sum(size), 0) FROM blobs b WHERE EXISTS (SELECT 1 FROM blob_owners o WHERE o.sha256 = b.sha256)) + ?1 * (SELECT count(*) FROM blob_owners),
		(SELECT coalesce(sum(size + ?1 * (SELECT count(*) FROM blob_owners o WHERE o.sha256 = b.sha256)), 0) FROM blobs b
		WHERE EXISTS (SELECT 1 FROM blob_owners o WHERE o.sha256 = b.sha256 AND o.pubkey IN (SELECT unhex(value) FROM json_each(?2))))`,
		ownedCost, r.keys).Scan(&r.stored.all, &r.stored.own)
}

// use is what one blob takes.
func (r *blobRoom) use(tx *sqlite.Tx, hash string) (u blobUse, err error) {
	var owners, own int64
	err = tx.QueryRow("SELECT count(*), coalesce(sum(pubkey IN (SELECT unhex(value) FROM json_each(?))), 0), coalesce(max(size), 0) FROM blob_owners WHERE sha256 = ?",
		r.keys, unhex(hash)).Scan(&owners, &own, &u.all)
	if owners == 0 {
		return blobUse{}, err
	}
	u.all += owners * ownedCost
	if own > 0 {
		u.own = u.all
	}
	return u, err
}

func (r *blobRoom) add(change blobUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored.all += change.all
	r.stored.own += change.own
}

// used is the space of all blobs and reservations.
func (r *blobRoom) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored.all + r.coming.all
}

// enter begins an upload of n bytes by a key that has stored has bytes. leave ends it.
func (r *blobRoom) enter(key string, has, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.own[key] && has+r.comingOf[key]+n > r.each {
		return errBlobsOfKey
	}
	r.comingOf[key] += n
	return nil
}

func (r *blobRoom) leave(key string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.comingOf[key] -= n; r.comingOf[key] == 0 {
		delete(r.comingOf, key)
	}
}

// take reserves n bytes for a received upload of the key; release frees them. If there
// is not enough space, it reserves nothing and returns how many bytes are missing.
func (r *blobRoom) take(key string, n int64) (over int64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	own := r.own[key]
	most := r.total
	if !own {
		most -= max(0, r.reserve()-r.stored.own-r.coming.own)
	}
	if over := r.stored.all + r.coming.all + n - most; over > 0 {
		return over
	}
	r.reserved(n, own)
	return 0
}

// hold reserves n bytes for the key, whatever is left. release frees them.
func (r *blobRoom) hold(key string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved(n, r.own[key])
}

func (r *blobRoom) reserved(n int64, own bool) {
	r.coming.all += n
	if own {
		r.coming.own += n
	}
}

func (r *blobRoom) release(key string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reserved(-n, r.own[key])
}

// maxEvictions bounds how many blobs make room for one upload.
const maxEvictions = 1000

// enter begins an upload of n bytes if the key's bound allows them. The room's leave
// ends it.
func (b *blobStore) enter(ctx context.Context, key string, n int64) error {
	var has int64
	err := b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT coalesce((SELECT bytes FROM blob_usage WHERE pubkey = ?), 0)", unhex(key)).Scan(&has)
	})
	if err != nil {
		return fmt.Errorf("count the blobs of a key: %w", err)
	}
	return b.room.enter(key, has, n)
}

// reserve frees and reserves n bytes for the key. The room's release ends the
// reservation.
func (b *blobStore) reserve(ctx context.Context, key string, n int64) error {
	for range maxEvictions {
		over := b.room.take(key, n)
		if over == 0 {
			return nil
		}
		if err := b.evict(ctx, over); err != nil {
			return err
		}
	}
	return errBlobsFull
}

// evictedAtOnce is how many blobs to evict one query looks for.
const evictedAtOnce = 64

// evict removes strangers' blobs until n bytes are free or evictedAtOnce are gone. The
// oldest uploads go first: of the key with the most, if that is more than its share,
// otherwise of all keys.
func (b *blobStore) evict(ctx context.Context, n int64) error {
	type owned struct {
		hash, key string
		size      int64
	}
	var list []owned
	err := b.db.View(ctx, func(tx *sqlite.Tx) error {
		var most []byte
		var has int64
		err := tx.QueryRow(`SELECT pubkey, bytes FROM blob_usage
			WHERE pubkey NOT IN (SELECT unhex(value) FROM json_each(?)) ORDER BY bytes DESC LIMIT 1`, b.room.keys).Scan(&most, &has)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}

		clause, args := "pubkey NOT IN (SELECT unhex(value) FROM json_each(?))", []any{b.room.keys}
		if has > b.room.each/8 {
			clause, args = "pubkey = ?", []any{most}
			n = min(n, has-b.room.each/8)
		}

		rows, err := tx.Query("SELECT sha256, pubkey, size FROM blob_owners WHERE "+clause+" ORDER BY since LIMIT ?", append(args, evictedAtOnce)...)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var hash, key []byte
			var o owned
			if err := rows.Scan(&hash, &key, &o.size); err != nil {
				return err
			}
			o.hash, o.key = hex.EncodeToString(hash), hex.EncodeToString(key)
			list = append(list, o)
		}

		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("find blobs that make room: %w", err)
	}
	if len(list) == 0 {
		return errBlobsFull
	}

	for _, o := range list {
		if n <= 0 {
			return nil
		}
		err := b.remove(ctx, o.key, o.hash)
		if err != nil && !errors.Is(err, errBlobUnknown) && !errors.Is(err, errNotOwner) { // unless its owner has removed it
			return fmt.Errorf("make room for a blob: %w", err)
		}
		n -= o.size + ownedCost
	}

	return nil
}
