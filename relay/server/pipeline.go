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
	// maxSlice bounds what one stranger's address has of a commit: another's event waits
	// for the commit that is under way, and then shares the next one.
	maxSlice = maxBatch / 4
)

// purgeInterval is how often events are removed that have expired or that the
// retention rules do not keep. The expired are not served in between.
const purgeInterval = time.Minute

// job is an event on its way from a client to the store.
type job struct {
	client *client
	event  *nostr.Event
	raw    []byte // its shortest JSON form
	cost   int    // what it takes of client.inFlight

	// Of the spreading goroutine:
	target    *target
	spreading int // clients whose filters are still to be tried
}

// finish answers the client and lets it send another event.
func (j *job) finish(accepted bool, text string) {
	j.client.ok(j.event.ID, accepted, text)
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

// verify returns the answer for an event that goes no further, "" for a good
// one: duplicate id -> hash -> signature, the cheap checks first. The store
// finds the other duplicates, and to ask it first would cost what a signature
// does.
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

// ingestLoop stores what is verified: what waits shares one commit. What the
// events mean to subscribers is the spreading goroutine's business: it gets them
// in the order of their commits.
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

// fill adds what waits to the first job of a batch, until the batch is full or a
// stranger's address has had its slice. The addresses come in turn: by then each other
// one that has anything waiting has had as much lately.
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

// ingest stores a batch. OK is sent after the commit returned, never before.
func (s *Server) ingest(batch []*job) {
	s.spreading.begin(batch)
	began := time.Now()
	outcomes, err := s.store.put(batch)
	s.metrics.commits.Observe(time.Since(began).Seconds())
	if err != nil && len(batch) > 1 {
		// One event can spoil the transaction of all: try each by itself.
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
		case stored:
			s.recent.add(j.event.ID)
			s.metrics.accepted(j.event.Kind)
			s.spread <- delivery{to: j.client, job: j, answer: true}
			continue
		case duplicate:
			s.recent.add(j.event.ID)
			s.metrics.duplicates.Inc()
		}

		s.spreading.end(j)
		j.finish(outcomes[i].answer())
	}
}

// tidy removes what has expired and what the rules do not keep.
func (s *Server) tidy(ctx context.Context, now time.Time) error {
	expired, err := s.store.purge(ctx, now)
	s.metrics.removed.WithLabelValues("expired").Add(float64(expired))
	if err != nil {
		return err
	}
	old, err := s.store.retain(ctx, s.cfg.Retention, now)
	s.metrics.removed.WithLabelValues("retention").Add(float64(old))
	return err
}

// purgeLoop tidies up until ctx ends.
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
