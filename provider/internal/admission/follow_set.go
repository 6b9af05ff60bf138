package admission

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// Trust says whose follows may buy.
type Trust string

// The kinds of trust.
const (
	TrustNobody   Trust = ""
	TrustFollows  Trust = "follows"  // whom one of Access.Of follows (kind 3, NIP-02)
	TrustFollows2 Trust = "follows2" // and whom those follow
)

const (
	// trustAge is how long the lists count before they are read again, trustRetry
	// how long after a relay did not give them.
	trustAge   = time.Hour
	trustRetry = time.Minute
	// trustWait bounds the reading of all lists: requests wait for the first time.
	trustWait = 5 * time.Second
	// followsMax bounds the keys of one list that count, listsMax the lists of
	// follows that are read for the second step: 200,000 keys at most.
	followsMax = 2000
	listsMax   = 100
	// listsAtOnce is how many lists one filter asks for.
	listsAtOnce = 20
)

// pubkey is an x-only key; as bytes a large set of them is small.
type pubkey [32]byte

// followSet is whom the operator trusts by others' word: a web of trust. What it knows is a copy of
// public lists, so it is not stored.
type followSet struct {
	query func(context.Context, nostr.Filter) ([]nostr.Event, error)
	steps int
	roots []string
	log   *slog.Logger

	mu   sync.Mutex // held while the lists are read, so that they are read once
	due  time.Time
	keys map[pubkey]bool
}

func newFollowSet(a Access, query func(context.Context, nostr.Filter) ([]nostr.Event, error), log *slog.Logger) *followSet {
	c := &followSet{query: query, roots: a.Of, log: log}
	switch a.Trust {
	case TrustFollows:
		c.steps = 1
	case TrustFollows2:
		c.steps = 2
	}
	return c
}

// has reports whether the key is in the set. A strange key costs no question:
// the lists are those of the keys that are trusted, never of who asks.
func (c *followSet) has(ctx context.Context, key string) bool {
	if c.steps == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !time.Now().Before(c.due) {
		c.read(ctx)
	}
	var k pubkey
	_, err := hex.Decode(k[:], []byte(key))
	return err == nil && len(key) == 2*len(k) && c.keys[k]
}

// read asks for the lists anew. Where a relay fails the old ones go on to count:
// that it is away for a while makes nobody a stranger.
func (c *followSet) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, trustWait)
	defer cancel()
	keys, err := c.grow(ctx)
	if err != nil {
		c.due = time.Now().Add(trustRetry)
		c.log.Warn("follows not read", "keys", len(c.keys), "err", err)
		return
	}
	c.keys, c.due = keys, time.Now().Add(trustAge)
	c.log.Info("follows read", "keys", len(keys), "steps", c.steps)
}

func (c *followSet) grow(ctx context.Context) (map[pubkey]bool, error) {
	keys := map[pubkey]bool{}
	from := c.roots
	for step := 1; step <= c.steps; step++ {
		var next []string
		for chunk := range slices.Chunk(from[:min(len(from), listsMax)], listsAtOnce) {
			found, err := c.lists(ctx, chunk)
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", step, err)
			}
			next = append(next, found...)
		}

		for _, key := range next {
			var k pubkey
			if _, err := hex.Decode(k[:], []byte(key)); err == nil {
				keys[k] = true
			}
		}

		from = next
	}

	return keys, nil
}

// lists are the keys of the latest follow list of each author.
func (c *followSet) lists(ctx context.Context, authors []string) (keys []string, err error) {
	events, err := c.query(ctx, nostr.Filter{Kinds: []int{kinds.Follows}, Authors: authors, Limit: 4 * len(authors)})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(events, func(a, b nostr.Event) int { return -cmp.Compare(a.CreatedAt, b.CreatedAt) })

	read := map[string]bool{}
	for _, ev := range events {
		if read[ev.PubKey] || ev.Kind != kinds.Follows || !slices.Contains(authors, ev.PubKey) {
			continue // an older one of another relay's, or nothing that was asked for
		}
		read[ev.PubKey] = true
		n := 0
		for _, t := range ev.Tags {
			if len(t) >= 2 && t[0] == "p" && nostr.IsValidPublicKey(t[1]) && n < followsMax {
				keys = append(keys, t[1])
				n++
			}
		}
	}

	return keys, nil
}
