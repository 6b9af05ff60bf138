package server

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// An upload that receives less than uploadStep bytes in uploadStall is ended.
	// It cannot be evicted for uploadGrace after each such step.
	uploadStep  = 64 << 10
	uploadStall = 15 * time.Second
	uploadGrace = 2 * time.Second
)

var (
	errUploadsBusy = errors.New("too many uploads at once")
	errUploadSlow  = errors.New("the upload is too slow")
)

// uploads bounds the running uploads in all, for each key and for each address. At a
// bound, a new upload evicts the one that has stalled longest. If none has stalled,
// it evicts one of the address with the most, if that address still has more than the
// newcomer's own afterwards. A few slow hosts therefore cannot keep the others out.
type uploads struct {
	all, perKey, perAddress int

	mu      sync.Mutex
	running map[*upload]struct{}
}

func newUploads(limit int) *uploads {
	return &uploads{
		all:        limit,
		perKey:     max(1, limit/4),
		perAddress: max(1, limit*3/4),
		running:    map[*upload]struct{}{},
	}
}

// upload is a running upload and the reader of its body. uploads.mu guards the fields
// below body.
type upload struct {
	of           *uploads
	key, address string
	end          time.Time             // of the whole transfer
	deadline     func(time.Time) error // sets that of the connection's reads
	body         io.Reader

	got     int       // bytes since the last step
	step    time.Time // time of the last step
	evicted error     // why it must end; nil while it may run
}

// begin adds u, or returns errUploadsBusy. finish removes it.
func (us *uploads) begin(u *upload, now time.Time) error {
	us.mu.Lock()
	defer us.mu.Unlock()

	for _, b := range []struct {
		limit int
		same  func(*upload) bool
	}{
		{us.perKey, func(o *upload) bool { return o.key == u.key }},
		{us.perAddress, func(o *upload) bool { return o.address == u.address }},
	} {
		if !us.hasRoom(b.limit, b.same, now) {
			return errUploadsBusy
		}
	}

	if !us.hasRoom(us.all, func(*upload) bool { return true }, now) && !us.makeRoom(u.address, now) {
		return errUploadsBusy
	}
	u.of, u.step = us, now
	us.running[u] = struct{}{}
	return u.renew(now)
}

// hasRoom reports whether fewer than limit of the counted uploads run. It evicts the
// slowest one if that has stalled.
func (us *uploads) hasRoom(limit int, counts func(*upload) bool, now time.Time) bool {
	n := 0
	var slowest *upload
	for o := range us.running {
		if !counts(o) {
			continue
		}
		n++
		if slowest == nil || o.step.Before(slowest.step) {
			slowest = o
		}
	}

	if n < limit {
		return true
	}
	if now.Sub(slowest.step) < uploadGrace {
		return false
	}

	us.evict(slowest, errUploadSlow, now)
	return true
}

// makeRoom evicts an upload of the address with the most for one of this address.
func (us *uploads) makeRoom(address string, now time.Time) bool {
	by := map[string][]*upload{}
	var most []*upload
	for o := range us.running {
		by[o.address] = append(by[o.address], o)
		if list := by[o.address]; len(list) > len(most) {
			most = list
		}
	}

	if len(most) <= len(by[address])+1 {
		return false
	}
	slowest := slices.MinFunc(most, func(a, b *upload) int { return a.step.Compare(b.step) })
	if slowest.step.After(now) { // all of them are received and being stored
		return false
	}
	us.evict(slowest, errUploadsBusy, now)
	return true
}

func (us *uploads) evict(u *upload, why error, now time.Time) {
	u.evicted = why
	delete(us.running, u)
	_ = u.deadline(now) // ends its read, which returns the error
}

func (us *uploads) finish(u *upload) {
	us.mu.Lock()
	defer us.mu.Unlock()
	delete(us.running, u)
}

// renew sets the deadline of the next step. The caller holds mu.
func (u *upload) renew(now time.Time) error {
	until := now.Add(uploadStall)
	if until.After(u.end) {
		until = u.end
	}
	return u.deadline(until)
}

// Read reads the body and counts its progress.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	u.of.mu.Lock()
	defer u.of.mu.Unlock()

	if u.evicted != nil {
		return n, u.evicted
	}
	if errors.Is(err, io.EOF) { // storing may take until the end
		u.step = u.end
		_ = u.deadline(u.end)
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errUploadSlow
	}
	if err != nil {
		return n, err
	}
	if u.got += n; u.got < uploadStep {
		return n, nil
	}

	now := time.Now()
	u.got, u.step = 0, now
	return n, u.renew(now)
}
