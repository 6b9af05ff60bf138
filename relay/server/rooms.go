package server

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

const (
	// roomLife is how long a room lives after the last blob that came into it, and
	// after the provider that opened it last asked for it.
	roomLife = 10 * time.Minute
	// roomIdle is how long an empty room is kept when another one needs its place.
	roomIdle = time.Minute
	// smallRoom is the size in bytes up to which providers open a room for a buyer
	// who has paid nothing yet. Such rooms together take an eighth of what all blobs
	// may take, all rooms a half.
	smallRoom   = 16 << 20
	smallShare  = 8
	roomShare   = 2
	maxRoomBlob = 1024 // blobs of a room
	// roomsOfKey and roomsOfAddress bound the rooms that one key, and the clients of
	// one address, have open. Of the small rooms' bytes, both have a quarter.
	roomsOfKey     = 8
	roomsOfAddress = 16
	ownShare       = 4
)

var (
	errRoomUnknown   = errors.New("no such room: its provider has not opened it yet, or has closed it, or nothing came for 10 minutes")
	errRoomOther     = errors.New("the room of this request is open for another key, or with other bounds")
	errRoomKey       = errors.New("the room of this request is another key's")
	errRoomFull      = errors.New("the blob does not fit into what is left of its room")
	errRoomBounds    = errors.New("a room has from 1 to 1024 blobs, and at least 1 byte")
	errRoomLength    = errors.New("into a room, an upload announces Content-Length and X-SHA-256")
	errRoomsFull     = errors.New("no space for another room")
	errRoomsOfKey    = errors.New("this key has too many rooms, or too many bytes in them")
	errRoomsOfOpener = errors.New("this provider has too many bytes in the rooms that it has opened")
	errRoomsOfHost   = errors.New("this address has too many rooms, or too many bytes in them")
)

// reservation is a room: the space that a provider reserves for what the buyer of one request
// uploads.
type reservation struct {
	id              string // of the request, hex
	owner, uploader string // public keys, hex
	bytes, blobs    int64
	most            int64 // bytes that all rooms of the owner may have
}

// takes is what the room takes of the space of all blobs.
func (r *reservation) takes() int64 { return r.bytes + r.blobs*ownedCost }

// roomStore has the open rooms. A room's whole size is reserved until it is closed, and
// its blobs count only there.
type roomStore struct {
	store *blobStore
	all   int64 // what all blobs may take

	mu sync.Mutex // held while rooms are opened or closed
}

// openRooms reserves the space of the rooms that were open when the process ended.
func openRooms(ctx context.Context, store *blobStore) (*roomStore, error) {
	rs := &roomStore{store: store, all: store.room.total}
	err := store.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query("SELECT lower(hex(owner)), bytes, blobs FROM rooms")
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var r reservation
			if err := rows.Scan(&r.owner, &r.bytes, &r.blobs); err != nil {
				return err
			}
			store.room.hold(r.owner, r.takes())
		}
		return rows.Err()
	})
	return rs, err
}

// open opens a room, or prolongs the life of the same one; fresh is true for a new one.
func (rs *roomStore) open(ctx context.Context, want reservation, now time.Time) (fresh bool, err error) {
	if want.bytes < 1 || want.blobs < 1 || want.blobs > maxRoomBlob {
		return false, errRoomBounds
	}
	if want.bytes > rs.all {
		return false, errRoomsFull
	}

	rs.mu.Lock()
	defer rs.mu.Unlock()

	if err := rs.lapse(ctx, now); err != nil {
		return false, err
	}
	if there, err := rs.renew(ctx, want, now); there || err != nil {
		return false, err
	}
	if err := rs.admit(ctx, want, now); err != nil {
		return false, err
	}
	if err := rs.store.reserve(ctx, want.owner, want.takes()); err != nil {
		return false, err
	}

	err = rs.store.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec("INSERT INTO rooms (id, owner, uploader, bytes, blobs, lapses) VALUES (?, ?, ?, ?, ?, ?)",
			unhex(want.id), unhex(want.owner), unhex(want.uploader), want.bytes, want.blobs, now.Add(roomLife).UnixMilli())
		return err
	})
	if err != nil {
		rs.store.room.release(want.owner, want.takes())
		return false, fmt.Errorf("open room: %w", err)
	}
	return true, nil
}

// renew prolongs the life of a room that is open already.
func (rs *roomStore) renew(ctx context.Context, want reservation, now time.Time) (there bool, err error) {
	err = rs.store.db.Update(ctx, func(tx *sqlite.Tx) error {
		var same bool
		err := tx.QueryRow("SELECT owner = ? AND uploader = ? AND bytes = ? AND blobs = ? FROM rooms WHERE id = ?",
			unhex(want.owner), unhex(want.uploader), want.bytes, want.blobs, unhex(want.id)).Scan(&same)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if there = err == nil; there && !same {
			return errRoomOther
		}
		if err == nil {
			_, err = tx.Exec("UPDATE rooms SET lapses = max(lapses, ?) WHERE id = ?", now.Add(roomLife).UnixMilli(), unhex(want.id))
		}
		return err
	})
	return there, err
}

// admit holds a new room against the bounds of its uploader and of all rooms. Small
// ones that nothing came into make room for it.
func (rs *roomStore) admit(ctx context.Context, want reservation, now time.Time) error {
	var ofKey, ofKeyBytes, ofOwner, small, all, missing int64
	err := rs.store.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow(`SELECT count(*) FILTER (WHERE uploader = ?1),
			coalesce(sum(bytes) FILTER (WHERE uploader = ?1 AND bytes <= ?2), 0), coalesce(sum(bytes) FILTER (WHERE owner = ?3), 0),
			coalesce(sum(bytes) FILTER (WHERE bytes <= ?2), 0), coalesce(sum(bytes), 0), coalesce(sum(bytes - used), 0) FROM rooms`,
			unhex(want.uploader), smallRoom, unhex(want.owner)).Scan(&ofKey, &ofKeyBytes, &ofOwner, &small, &all, &missing)
	})
	if err != nil {
		return fmt.Errorf("count rooms: %w", err)
	}

	isSmall := want.bytes <= smallRoom
	if ofKey >= roomsOfKey || isSmall && ofKeyBytes > 0 && ofKeyBytes+want.bytes > rs.ofEach() {
		return errRoomsOfKey
	}
	if ofOwner+want.bytes > want.most {
		return errRoomsOfOpener
	}
	if err := rs.store.fitsDisk(missing + want.bytes); err != nil {
		return err
	}
	if all+want.bytes > rs.all/roomShare {
		return errRoomsFull
	}
	if over := small + want.bytes - rs.all/smallShare; isSmall && over > 0 {
		return rs.evict(ctx, over, now)
	}
	return nil
}

// ofEach is what the small rooms of one key, and of one address, may take.
func (rs *roomStore) ofEach() int64 { return rs.all / smallShare / ownShare }

// evict closes small rooms that nothing came into for a while, until n bytes are free.
func (rs *roomStore) evict(ctx context.Context, n int64, now time.Time) error {
	idle, err := rs.find(ctx, "used = 0 AND stored = 0 AND bytes <= ? AND lapses <= ? ORDER BY lapses",
		smallRoom, now.Add(roomLife-roomIdle).UnixMilli())
	if err != nil {
		return err
	}
	for _, r := range idle {
		if n <= 0 {
			break
		}
		if err := rs.remove(ctx, r); err != nil {
			return err
		}
		n -= r.bytes
	}
	if n > 0 {
		return errRoomsFull
	}
	return nil
}

// find finds rooms by a condition.
func (rs *roomStore) find(ctx context.Context, condition string, args ...any) (found []reservation, err error) {
	err = rs.store.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query("SELECT lower(hex(id)), lower(hex(owner)), bytes, blobs FROM rooms WHERE "+condition, args...)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var r reservation
			if err := rows.Scan(&r.id, &r.owner, &r.bytes, &r.blobs); err != nil {
				return err
			}
			found = append(found, r)
		}
		return rows.Err()
	})
	return found, err
}

// tidy closes the rooms whose time is up.
func (rs *roomStore) tidy(ctx context.Context, now time.Time) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.lapse(ctx, now)
}

// lapse closes the rooms whose time is up. The caller holds mu.
func (rs *roomStore) lapse(ctx context.Context, now time.Time) error {
	old, err := rs.find(ctx, "lapses <= ?", now.UnixMilli())
	for _, r := range old {
		err = errors.Join(err, rs.remove(ctx, r))
	}
	return err
}

// close closes the room of a request for its owner, if it is open.
func (rs *roomStore) close(ctx context.Context, owner, id string) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()

	found, err := rs.find(ctx, "id = ? AND owner = ?", unhex(id), unhex(owner))
	if err != nil || len(found) == 0 {
		return err
	}
	return rs.remove(ctx, found[0])
}

// remove removes a room and its blobs. A crash in between leaves a room whose time is up,
// which the next start removes. The caller holds mu.
func (rs *roomStore) remove(ctx context.Context, r reservation) error {
	var hashes []string
	err := rs.store.db.Update(ctx, func(tx *sqlite.Tx) error {
		if _, err := tx.Exec("UPDATE rooms SET lapses = 0 WHERE id = ?", unhex(r.id)); err != nil { // nothing comes in any more
			return err
		}
		rows, err := tx.Query("SELECT sha256 FROM room_blobs WHERE room = ?", unhex(r.id))
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var hash []byte
			if err := rows.Scan(&hash); err != nil {
				return err
			}
			hashes = append(hashes, hex.EncodeToString(hash))
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("close room: %w", err)
	}

	for _, hash := range hashes {
		err := rs.store.unclaim(ctx, hash, func(tx *sqlite.Tx) error {
			_, err := tx.Exec("DELETE FROM room_blobs WHERE room = ? AND sha256 = ?", unhex(r.id), unhex(hash))
			return err
		})
		if err != nil {
			return fmt.Errorf("remove a blob of a room: %w", err)
		}
	}

	err = rs.store.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM rooms WHERE id = ?", unhex(r.id))
		return err
	})
	if err != nil {
		return fmt.Errorf("close room: %w", err)
	}
	rs.store.room.release(r.owner, r.takes())
	return nil
}

// intoRoom is one upload into a room.
type intoRoom struct {
	id, key, address string
	rooms            int    // how many the address may have open
	hash, mime       string // as announced
	size             int64
}

// ask reports whether an upload would be taken. The blob is returned if the room has it
// already.
func (rs *roomStore) ask(ctx context.Context, in intoRoom, now time.Time) (there blob, err error) {
	if in.hash == "" || in.size < 0 {
		return blob{}, errRoomLength
	}
	if in.size > rs.store.max {
		return blob{}, errBlobTooLarge
	}

	err = rs.store.db.View(ctx, func(tx *sqlite.Tx) error {
		there, err = rs.look(tx, in, now)
		return err
	})
	if err != nil || there.hash != "" {
		return there, err
	}
	return blob{}, rs.store.fitsDisk(in.size)
}

// put stores a blob in its room and returns once it is durable. One that is there
// already is not read.
func (rs *roomStore) put(ctx context.Context, in intoRoom, body io.Reader, now time.Time) (stored blob, fresh bool, err error) {
	if stored, err = rs.ask(ctx, in, now); err != nil || stored.hash != "" {
		return stored, false, err
	}

	got, err := rs.store.receive(body, in.size)
	if err != nil {
		return blob{}, false, err
	}
	defer rs.store.discard(got)
	if got.hash != in.hash {
		return blob{}, false, errBlobOther
	}

	return rs.store.commit(ctx, got, in.mime, func(tx *sqlite.Tx, n blob) error {
		there, err := rs.look(tx, in, now) // since it was admitted, others have come
		if err != nil || there.hash != "" {
			return err
		}
		if _, err := tx.Exec("INSERT INTO room_blobs (room, sha256) VALUES (?, ?)", unhex(in.id), unhex(in.hash)); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE rooms SET used = used + ?, stored = stored + 1, address = ?, lapses = max(lapses, ?) WHERE id = ?",
			n.size, in.address, time.Now().Add(roomLife).UnixMilli(), unhex(in.id))
		return err
	})
}

// look reports whether the room has space for the upload. The blob is returned if the
// room has it already.
func (rs *roomStore) look(tx *sqlite.Tx, in intoRoom, now time.Time) (there blob, err error) {
	var key, address string
	var bytes, used, blobs, stored int64
	err = tx.QueryRow("SELECT lower(hex(uploader)), address, bytes, used, blobs, stored FROM rooms WHERE id = ? AND lapses > ?",
		unhex(in.id), now.UnixMilli()).Scan(&key, &address, &bytes, &used, &blobs, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return blob{}, errRoomUnknown
	case err != nil:
		return blob{}, err
	case key != in.key:
		return blob{}, errRoomKey
	}

	has, err := exists(tx, "SELECT 1 FROM room_blobs WHERE room = ? AND sha256 = ?", unhex(in.id), unhex(in.hash))
	if err != nil {
		return blob{}, err
	}
	if has {
		return readBlob(tx, in.hash)
	}
	if used+in.size > bytes || stored >= blobs {
		return blob{}, errRoomFull
	}
	if address == in.address || in.rooms == math.MaxInt {
		return blob{}, nil
	}

	var count, small int64
	err = tx.QueryRow("SELECT count(*), coalesce(sum(bytes) FILTER (WHERE bytes <= ?), 0) FROM rooms WHERE address = ?",
		smallRoom, in.address).Scan(&count, &small)
	if err == nil && (count >= int64(min(in.rooms, roomsOfAddress)) || bytes <= smallRoom && small > 0 && small+bytes > rs.ofEach()) {
		err = errRoomsOfHost
	}
	return blob{}, err
}
