package server

import (
	"container/heap"
	"sync"
)

// fair is a queue that serves addresses in turn, and the connections of an address
// in turn: the next item belongs to the address, and then the connection, that was
// served least, by the cost of its items. So a new connection waits only for the
// item that is being served, however many items of others are queued. Items of one
// connection keep their order.
type fair[T any] struct {
	mu     sync.Mutex
	more   sync.Cond
	root   lane[T]
	closed bool
}

// lane is a connection with its queued items, an address with its connections, or
// the root with the addresses. Its zero value is ready for use; fair.mu guards its
// fields.
type lane[T any] struct {
	parent *lane[T]
	items  []T
	under  laneHeap[T] // lanes with queued items

	served int64 // total cost, in the parent's time
	now    int64 // value of served of the lane below that was served last
	at     int   // index in parent.under, from 1; 0: none
}

func newFair[T any]() *fair[T] {
	f := &fair[T]{}
	f.more.L = &f.mu
	return f
}

// join adds a connection's lane to that of its address.
func (f *fair[T]) join(connection, address *lane[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	connection.parent, address.parent = address, &f.root
}

// push adds an item to a connection's lane. It never blocks.
func (f *fair[T]) push(l *lane[T], item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.items = append(l.items, item)
	for ; l.parent != nil && l.at == 0; l = l.parent {
		l.served = max(l.served, l.parent.now) // unused turns expire
		heap.Push(&l.parent.under, l)
	}
	f.more.Signal()
}

// pop returns the next item and its lane, to which the caller must charge the cost.
func (f *fair[T]) pop() (l *lane[T], item T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.take()
}

// wait is pop that waits for an item; ok is false when the queue is closed and
// empty.
func (f *fair[T]) wait() (l *lane[T], item T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if l, item, ok = f.take(); ok || f.closed {
			return l, item, ok
		}
		f.more.Wait()
	}
}

// take implements pop; mu must be held.
func (f *fair[T]) take() (l *lane[T], item T, ok bool) {
	if len(f.root.under) == 0 {
		return nil, item, false
	}
	for l = &f.root; len(l.under) > 0; l = l.under[0] {
		l.now = l.under[0].served
	}
	item = l.items[0]
	var none T
	l.items[0] = none
	if l.items = l.items[1:]; len(l.items) == 0 {
		l.items = nil
	}
	for e := l; e.parent != nil && len(e.items)+len(e.under) == 0; e = e.parent {
		heap.Remove(&e.parent.under, e.at-1)
	}
	return l, item, true
}

// charge adds the cost of work to a lane and to its address.
func (f *fair[T]) charge(l *lane[T], cost int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; l.parent != nil; l = l.parent {
		l.served += cost
		if l.at > 0 {
			heap.Fix(&l.parent.under, l.at-1)
		}
	}
}

// close makes wait return when no items are left.
func (f *fair[T]) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.more.Broadcast()
}

// laneHeap implements container/heap: the lane that was served least is first.
type laneHeap[T any] []*lane[T]

func (h laneHeap[T]) Len() int           { return len(h) }
func (h laneHeap[T]) Less(i, j int) bool { return h[i].served < h[j].served }

func (h laneHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

func (h *laneHeap[T]) Push(x any) {
	l := x.(*lane[T])
	*h = append(*h, l)
	l.at = len(*h)
}

func (h *laneHeap[T]) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h, l.at = old[:len(old)-1], 0
	return l
}
