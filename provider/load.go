package provider

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/provider/internal/slots"
	"github.com/lightwork-market/lightwork/receipts"
)

// load counts open jobs for admission: per buyer and in all, those that wait
// for payment and those that are paid for (or need no payment first).
type load struct {
	mu   sync.Mutex
	jobs map[string]*loadEntry // by request id
	all  counts
	per  map[string]counts // by buyer
}

type loadEntry struct {
	buyer  string
	active bool
	hold   bool
}

type counts struct{ unpaid, active, held int }

func (c counts) plus(e loadEntry, n int) counts {
	switch {
	case !e.active:
		c.unpaid += n
	case e.hold:
		c.active, c.held = c.active+n, c.held+n
	default:
		c.active += n
	}
	return c
}

func newLoad() *load {
	return &load{jobs: map[string]*loadEntry{}, per: map[string]counts{}}
}

// crowded reports that of the places for unpaid invoices, or of the queue, those
// are left that are kept for customers: new keys cost nothing, so without them
// anybody could take all.
func (l *load) crowded(lim Limits) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.unpaid >= slots.ForUnpaid(lim.Unpaid) || l.all.active >= slots.ForUnpaid(lim.Queue)
}

// filling reports that half of what strangers may have of the places for unpaid
// invoices is taken.
func (l *load) filling(lim Limits) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.unpaid >= (slots.ForUnpaid(lim.Unpaid)+1)/2
}

// enter takes a place for a new job, or says which limit is reached. known is a
// customer, fee a job whose engagement fee comes first. A stranger's job that is
// paid for before it runs may have the whole queue.
func (l *load) enter(id, buyer string, known bool, mode receipts.Mode, fee bool, lim Limits) Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.per[buyer]
	e := loadEntry{buyer: buyer, active: unproven(mode, fee), hold: mode == receipts.ModeHold}
	switch {
	case c.active >= lim.QueuePerBuyer:
		return because(CodeOverCapacity, fmt.Sprintf("at most %d jobs of one key at a time; retry when one ends", lim.QueuePerBuyer))
	case l.all.active >= lim.Queue:
		return because(CodeOverCapacity, "the queue is full; retry later")
	case e.active && !known && l.all.active >= slots.ForUnpaid(lim.Queue):
		return because(CodeOverCapacity, "the queue is full for a key that has paid for nothing here yet; retry later, or pay first")
	case !e.active && c.unpaid >= lim.UnpaidPerBuyer:
		return because(CodeTooManyUnpaid, fmt.Sprintf("at most %d unpaid invoices of one key; pay or cancel one", lim.UnpaidPerBuyer))
	case !e.active && l.all.unpaid >= lim.Unpaid:
		return because(CodeTooManyUnpaid, "too many unpaid invoices; retry later")
	case !e.active && !known && l.all.unpaid >= slots.ForUnpaid(lim.Unpaid):
		return because(CodeTooManyUnpaid, "too many unpaid invoices for a key that has paid for nothing here yet; retry later")
	case e.hold && c.held >= lim.HeldPerBuyer:
		return because(CodeOverCapacity, fmt.Sprintf("at most %d held payments of one key", lim.HeldPerBuyer))
	}
	l.put(id, e)
	return Reason{}
}

// resume puts a job that was admitted before a restart in its place.
func (l *load) resume(job Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[job.RequestID] == nil {
		active := job.State != StateQuoted || !paysFirst(job.Mode) && !job.OwesFee()
		l.put(job.RequestID, loadEntry{buyer: job.Buyer, active: active, hold: job.Mode == receipts.ModeHold})
	}
}

// activate moves a job from unpaid to active.
func (l *load) activate(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.jobs[id]; e != nil && !e.active {
		moved := *e
		l.drop(id)
		moved.active = true
		l.put(id, moved)
	}
}

// leave gives a job's place back. Leaving twice is fine.
func (l *load) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(id)
}

func (l *load) put(id string, e loadEntry) {
	l.jobs[id] = &e
	l.all = l.all.plus(e, 1)
	l.per[e.buyer] = l.per[e.buyer].plus(e, 1)
}

func (l *load) drop(id string) {
	e := l.jobs[id]
	if e == nil {
		return
	}
	delete(l.jobs, id)
	l.all = l.all.plus(*e, -1)
	if c := l.per[e.buyer].plus(*e, -1); c == (counts{}) {
		delete(l.per, e.buyer)
	} else {
		l.per[e.buyer] = c
	}
}

// replies bounds how often bad requests of one key, and of all keys, are
// answered; another one, how often pings are. Keys are free to make, so the total
// matters most.
type replies struct {
	mu     sync.Mutex
	perMin int
	keys   map[string]*rate.Limiter
	all    *rate.Limiter
}

// replyKeys bounds the keys remembered; beyond it the memory starts anew.
const replyKeys = 10_000

func newReplies(perMin int) *replies {
	return &replies{perMin: perMin, keys: map[string]*rate.Limiter{}, all: rate.NewLimiter(rate.Limit(perMin)*10/60, perMin*10)}
}

// allow counts an answer to the key. known says whether it is a customer: what
// strangers use up is not theirs.
func (r *replies) allow(key string, now time.Time, known func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) >= replyKeys {
		clear(r.keys)
	}
	lim := r.keys[key]
	if lim == nil {
		lim = rate.NewLimiter(rate.Limit(r.perMin)/60, r.perMin)
		r.keys[key] = lim
	}
	return lim.AllowN(now, 1) && (r.all.AllowN(now, 1) || known())
}
