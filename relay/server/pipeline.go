package server

import (
	"context"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	// maxBatch bounds the cost of the events that share one commit.
	maxBatch = 256
	// maxSlice bounds the share of one stranger's address in a commit: an event of
	// another address then waits for the running commit and shares the next one.
	maxSlice = maxBatch / 4
)

// purgeInterval is how often expired events, and those that the retention rules do
// not keep, are removed. Expired events are not served in between.
const purgeInterval = time.Minute

// job is an event on its way from a client to the store.
type job struct {
	client *client
	event  *nostr.Event
	raw    []byte // its shortest JSON form
	cost   int    // its share of client.inFlight

	// Owned by the spreading goroutine:
	target    *target
	spreading int // clients whose filters have not been tested yet
}

// finish answers the client and makes room for another of its events.
func (j *job) finish(accepted bool, text string) {
	j.client.sendOK(j.event.ID, accepted, text)
	j.client.leaveFlight(int64(j.cost))
}

// verifyLoop is one of the workers that check signatures.
func (s *Server) verifyLoop() {
	for {
		l, j, ok := s.unverified.wait()
		if !ok {
			return
		}
		s.unverified.charge(l, int64(j.cost))
		if reason, accepted := s.verify(j); reason != "" {
			j.finish(accepted, reason)
			continue
		}
		if nostr.IsEphemeralKind(j.event.Kind) {
			s.metrics.accepted(j.event.Kind)
			s.spread <- delivery{to: j.client, job: j, answer: true}
			continue
		}

		s.verified.push(&j.client.toStore, j)
	}
}

const duplicateText = "duplicate: already have this event"

// verify returns the answer for an event that is refused or a duplicate, "" for a
// good one. The cheap checks are first: duplicate id, hash, signature. The store
// detects further duplicates later, because asking it here would cost as much as a
// signature.
func (s *Server) verify(j *job) (reason string, accepted bool) {
	if s.recent.has(j.event.ID) {
		have, err := s.store.has(j.event.ID)
		switch {
		case err != nil:
			s.cfg.Log.Error("look up event", "error", err)
			return "error: the store does not answer", false
		case have:
			s.metrics.duplicates.Inc()
			return duplicateText, true
		}
	}

	if err := nip01.Verify(j.event); err != nil {
		j.client.penalize()
		return "invalid: " + err.Error(), false
	}
	return "", false
}

// ingestLoop stores verified events: those that are waiting share one commit. The
// spreading goroutine gets them in the order of their commits and delivers them to
// subscribers.
func (s *Server) ingestLoop() {
	batch := make([]*job, 0, maxBatch)
	for {
		l, first, ok := s.verified.wait()
		if !ok {
			return
		}

		batch = s.fill(batch[:0], l, first)
		s.ingest(batch)
		clear(batch)
	}
}

// fill adds waiting events to a batch until it is full or a stranger's address has
// had its slice. The addresses take turns, so by then every other waiting address
// has recently had as much.
func (s *Server) fill(batch []*job, l *lane[*job], first *job) []*job {
	cost, slices := 0, map[*host]int{}
	for j, more := first, true; more; l, j, more = s.verified.pop() {
		s.verified.charge(l, int64(j.cost))
		batch = append(batch, j)
		at := j.client.host
		cost += j.cost
		slices[at] += j.cost
		if cost >= maxBatch || !at.unbounded && slices[at] >= maxSlice {
			break
		}
	}

	return batch
}

// ingest stores a batch. OK is sent only after the commit has returned.
func (s *Server) ingest(batch []*job) {
	s.spreading.begin(batch)
	began := time.Now()
	outcomes, err := s.store.put(batch)
	s.metrics.commits.Observe(time.Since(began).Seconds())
	if err != nil && len(batch) > 1 {
		// One event can fail the whole transaction, so try each by itself.
		for i := range batch {
			s.ingest(batch[i : i+1])
		}
		return
	}

	for i, j := range batch {
		if err != nil {
			s.cfg.Log.Error("store event", "id", j.event.ID, "error", err)
			s.spreading.end(j)
			j.finish(false, "error: could not store the event")
			continue
		}

		switch outcomes[i] {
		case outcomeStored:
			s.recent.add(j.event.ID)
			s.metrics.accepted(j.event.Kind)
			s.spread <- delivery{to: j.client, job: j, answer: true}
			continue
		case outcomeDuplicate:
			s.recent.add(j.event.ID)
			s.metrics.duplicates.Inc()
		}

		s.spreading.end(j)
		j.finish(outcomes[i].answer())
	}
}

// tidy removes expired events, those that the rules do not keep, and rooms whose time
// is up.
func (s *Server) tidy(ctx context.Context, now time.Time) error {
	if err := s.rooms.tidy(ctx, now); err != nil {
		return err
	}
	expired, err := s.store.purge(ctx, now)
	s.metrics.removed.WithLabelValues("expired").Add(float64(expired))
	if err != nil {
		return err
	}
	old, err := s.store.retain(ctx, s.cfg.Retention, now)
	s.metrics.removed.WithLabelValues("retention").Add(float64(old))
	return err
}

// purgeLoop calls tidy until ctx ends.
func (s *Server) purgeLoop(ctx context.Context) {
	tick := time.NewTicker(purgeInterval)
	defer tick.Stop()

	for {
		if err := s.tidy(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("remove old events", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
