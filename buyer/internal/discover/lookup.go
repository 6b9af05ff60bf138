package discover

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

// beats are the latest signs of life, by provider and d.
func (s Scout) beats(ctx context.Context, list []Listing) (map[string]time.Time, error) {
	at := map[string]time.Time{}
	for chunk := range slices.Chunk(providersOf(list), filterMax) {
		events, err := s.query(ctx, nostr.Filter{Kinds: []int{kinds.Beat}, Authors: chunk, Limit: listingsPage})
		if err != nil {
			return nil, err
		}
		for _, ev := range events {
			key, when := ev.PubKey+":"+ev.Tags.GetD(), ev.CreatedAt.Time().UTC()
			if domain.Allow(domain.Beat, ev.Tags) == nil && time.Until(when) < announcementAhead && when.After(at[key]) {
				at[key] = when
			}
		}
	}

	return at, nil
}

// noteEnds notes which keys of the list ended. A key's own events tell, and those of the
// key that follows it, which the first cannot have deleted. A statement that is dated
// ahead of our clock counts too: its key says that it is not to be trusted.
func (s Scout) noteEnds(ctx context.Context, list []Listing) error {
	var history receipts.KeyHistory
	for chunk := range slices.Chunk(providersOf(list), filterMax) {
		for _, f := range []nostr.Filter{
			{Kinds: []int{kinds.KeyChange}, Authors: chunk, Limit: listingsPage},
			{Kinds: []int{kinds.KeyChange}, Tags: nostr.TagMap{"p": chunk}, Limit: listingsPage},
		} {
			events, err := s.query(ctx, f)
			if err != nil {
				return err
			}
			for _, ev := range events {
				doc, err := ev.MarshalJSON()
				if err != nil {
					continue
				}
				if read, err := receipts.ParseEvent(doc, receipts.MaxKeyStatementBytes); err == nil {
					_, _ = history.Add(read) // anybody may publish what is none
				}
			}
		}
	}

	for i := range list {
		if end, ended := history.End(list[i].Provider); ended {
			list[i].End = &end
		}
	}
	return nil
}

// providersOf is each provider of the list once.
func providersOf(list []Listing) (keys []string) {
	listed := map[string]bool{}
	for _, l := range list {
		if !listed[l.Provider] {
			listed[l.Provider] = true
			keys = append(keys, l.Provider)
		}
	}
	return keys
}

// follows are the keys of our own latest contact list.
func (s Scout) follows(ctx context.Context) (keys []string, err error) {
	if s.Key == "" {
		return nil, nil
	}
	lists, err := s.query(ctx, nostr.Filter{Kinds: []int{kinds.Follows}, Authors: []string{s.Key}, Limit: 1})
	if err != nil || len(lists) == 0 {
		return nil, err
	}

	latest := slices.MaxFunc(lists, func(a, b nostr.Event) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	for _, t := range latest.Tags {
		if len(t) >= 2 && t[0] == "p" && nostr.IsValidPublicKey(t[1]) && len(keys) < followsMax {
			keys = append(keys, t[1])
		}
	}

	return keys, nil
}

// followedBy counts, by provider, how many of those whom we follow follow it. Lists
// are large, so only those that name a provider are asked for, of the first keys
// that we follow and for the first providers.
func (s Scout) followedBy(ctx context.Context, follows []string, list []Listing) (map[string]int, error) {
	counts := map[string]int{}
	follows = follows[:min(len(follows), filterMax)]
	keys := providersOf(list)
	keys = keys[:min(len(keys), filterMax)]
	if len(follows) == 0 || len(keys) == 0 {
		return counts, nil
	}
	events, err := s.query(ctx, nostr.Filter{
		Kinds: []int{kinds.Follows}, Authors: follows, Limit: filterMax, Tags: nostr.TagMap{"p": keys},
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(events, func(a, b nostr.Event) int { return -cmp.Compare(a.CreatedAt, b.CreatedAt) })

	read := map[string]bool{}
	for _, ev := range events {
		if read[ev.PubKey] {
			continue // an older list of the same key, from another relay
		}
		read[ev.PubKey] = true
		named := map[string]bool{}
		for _, t := range ev.Tags {
			if len(t) >= 2 && t[0] == "p" && !named[t[1]] {
				named[t[1]] = true
				counts[t[1]]++
			}
		}
	}

	return counts, nil
}

// recommendations count, by provider and d, how many of the keys recommend it
// for our kind of request.
func (s Scout) recommendations(ctx context.Context, follows []string) (map[string]int, error) {
	voices := map[string]map[string]bool{}
	for chunk := range slices.Chunk(follows, filterMax) {
		events, err := s.query(ctx, nostr.Filter{
			Kinds: []int{kinds.Recommendation}, Authors: chunk, Limit: listingsPage,
			Tags: nostr.TagMap{"d": {strconv.Itoa(s.RequestKind)}},
		})
		if err != nil {
			return nil, err
		}

		for _, ev := range events {
			for _, t := range ev.Tags {
				if len(t) < 2 || t[0] != "a" {
					continue
				}
				if address, ok := strings.CutPrefix(t[1], strconv.Itoa(kinds.Announcement)+":"); ok {
					if voices[address] == nil {
						voices[address] = map[string]bool{}
					}
					voices[address][ev.PubKey] = true
				}
			}
		}
	}

	counts := map[string]int{}
	for address, by := range voices {
		counts[address] = len(by)
	}
	return counts, nil
}

// query asks, and holds the answer against what was asked.
func (s Scout) query(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	events, err := s.Market.Query(ctx, f)
	return slices.DeleteFunc(events, func(ev nostr.Event) bool { return !f.Matches(&ev) }), err
}
