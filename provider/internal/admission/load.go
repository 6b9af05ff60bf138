package admission

import (
	"fmt"
	"sync"

	"github.com/lightwork-market/lightwork/market/job"
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
func (l *load) enter(id, buyer string, known bool, mode receipts.Mode, fee bool, lim Limits) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	c := l.per[buyer]
	e := loadEntry{buyer: buyer, active: !isPaidFirst(mode, fee), hold: mode == receipts.ModeHold}
	switch {
	case c.active >= lim.QueuePerBuyer:
		return job.Refuse(job.CodeOverCapacity, fmt.Sprintf("at most %d jobs of one key at a time; retry when one ends", lim.QueuePerBuyer))
	case l.all.active >= lim.Queue:
		return job.Refuse(job.CodeOverCapacity, "the queue is full; retry later")
	case e.active && !known && l.all.active >= slots.ForUnpaid(lim.Queue):
		return job.Refuse(job.CodeOverCapacity, "the queue is full for a key that has paid for nothing here yet; retry later, or pay first")
	case !e.active && c.unpaid >= lim.UnpaidPerBuyer:
		return job.Refuse(job.CodeTooManyUnpaid, fmt.Sprintf("at most %d unpaid invoices of one key; pay or cancel one", lim.UnpaidPerBuyer))
	case !e.active && l.all.unpaid >= lim.Unpaid:
		return job.Refuse(job.CodeTooManyUnpaid, "too many unpaid invoices; retry later")
	case !e.active && !known && l.all.unpaid >= slots.ForUnpaid(lim.Unpaid):
		return job.Refuse(job.CodeTooManyUnpaid, "too many unpaid invoices for a key that has paid for nothing here yet; retry later")
	case e.hold && c.held >= lim.HeldPerBuyer:
		return job.Refuse(job.CodeOverCapacity, fmt.Sprintf("at most %d held payments of one key", lim.HeldPerBuyer))
	}

	l.put(id, e)
	return nil
}

// resume puts a job that was admitted before a restart in its place.
func (l *load) resume(j job.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[j.RequestID] == nil {
		active := j.State != job.StateQuoted || !j.PaidFirst(j.Due())
		l.put(j.RequestID, loadEntry{buyer: j.Buyer, active: active, hold: j.Mode == receipts.ModeHold})
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
