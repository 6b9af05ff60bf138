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
	// An upload must bring uploadStep bytes in every uploadStall. It holds its
	// place against others for uploadGrace after each step.
	uploadStep  = 64 << 10
	uploadStall = 15 * time.Second
	uploadGrace = 2 * time.Second
)

var (
	errUploadsBusy = errors.New("too many uploads at once")
	errUploadSlow  = errors.New("the upload is too slow")
)

// uploads are the running ones: bounded in all, for each key and for each
// address. Where a bound is reached, a newcomer takes the place of the upload
// that has stalled longest; one that makes progress keeps its own. Once all places
// are taken by such, it is as with connections: the newcomer gets one of the
// address that has the most, as long as that leaves this address more than its own
// has. So a few hosts that trickle cannot keep the others out.
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

// upload is one of them, and the reader of its body. Fields below body are
// guarded by uploads.mu.
type upload struct {
	of           *uploads
	key, address string
	end          time.Time             // of the whole transfer
	deadline     func(time.Time) error // sets that of the connection's reads
	body         io.Reader

	got    int       // bytes since the last step
	step   time.Time // when it was
	ousted error     // why it is to end
}

// begin enters u, or returns errUploadsBusy. It ends with finish.
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
		if !us.room(b.limit, b.same, now) {
			return errUploadsBusy
		}
	}
	if !us.room(us.all, func(*upload) bool { return true }, now) && !us.share(u.address, now) {
		return errUploadsBusy
	}
	u.of, u.step = us, now
	us.running[u] = struct{}{}
	return u.renew(now)
}

// room reports whether fewer than limit of those that count are running, and
// ousts the slowest if that makes it so.
func (us *uploads) room(limit int, counts func(*upload) bool, now time.Time) bool {
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
	us.oust(slowest, errUploadSlow, now)
	return true
}

// share makes room for one more of the address, if another has more.
func (us *uploads) share(address string, now time.Time) bool {
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
	if slowest.step.After(now) { // all of them have come and are being stored
		return false
	}
	us.oust(slowest, errUploadsBusy, now)
	return true
}

func (us *uploads) oust(u *upload, why error, now time.Time) {
	u.ousted = why
	delete(us.running, u)
	_ = u.deadline(now) // ends its read; it reports itself
}

func (us *uploads) finish(u *upload) {
	us.mu.Lock()
	defer us.mu.Unlock()
	delete(us.running, u)
}

// renew gives the next step its time. The caller holds mu.
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
	if u.ousted != nil {
		return n, u.ousted
	}
	if errors.Is(err, io.EOF) { // it may take its time to be stored
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
