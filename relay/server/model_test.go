package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// The model test builds events and filters from few values, so that they meet,
// and compares the store with the plainest possible one: a list.

// modelStart is the time of the oldest event.
const modelStart = 1_700_000_000

func modelEvent(t *rapid.T) nostr.Event {
	ev := nostr.Event{
		Kind:      rapid.SampledFrom([]int{0, 1, 2, 5050, 30000}).Draw(t, "kind"),
		CreatedAt: modelStart + nostr.Timestamp(rapid.IntRange(0, 9).Draw(t, "at")),
		Content:   fmt.Sprint(rapid.IntRange(0, 1<<30).Draw(t, "content")),
		Tags:      nostr.Tags{},
	}
	for range rapid.IntRange(0, 3).Draw(t, "tags") {
		name := rapid.SampledFrom([]string{"t", "T", "d", "word"}).Draw(t, "name")
		ev.Tags = append(ev.Tags, nostr.Tag{name, rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "value")})
	}
	secret := rapid.SampledFrom([]string{aliceSecret, bobSecret}).Draw(t, "author")
	ev.PubKey = modelKeys[secret]
	ev.ID, ev.Sig = nip01.ID(&ev), strings.Repeat("0", 128) // the store does not verify
	return ev
}

var modelKeys = map[string]string{
	aliceSecret: strings.Repeat("a", 64),
	bobSecret:   strings.Repeat("b", 64),
}

func modelFilter(t *rapid.T, events []nostr.Event) nostr.Filter {
	var f nostr.Filter
	maybe := func(what string) bool { return rapid.IntRange(0, 2).Draw(t, what) == 0 }
	if maybe("ids") {
		f.IDs = []string{strings.Repeat("0", 64)}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			f.IDs = append(f.IDs, rapid.SampledFrom(events).Draw(t, "id").ID)
		}
	}
	if maybe("authors") {
		f.Authors = rapid.SliceOfN(rapid.SampledFrom([]string{modelKeys[aliceSecret], modelKeys[bobSecret]}), 0, 3).Draw(t, "authors")
	}
	if maybe("kinds") {
		f.Kinds = rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 5050, 30000}), 0, 3).Draw(t, "kinds")
	}
	for _, name := range []string{"t", "T", "d"} {
		if maybe("#" + name) {
			if f.Tags == nil {
				f.Tags = nostr.TagMap{}
			}
			f.Tags[name] = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z", ""}), 0, 2).Draw(t, "values")
		}
	}
	if maybe("since") {
		since := modelStart + nostr.Timestamp(rapid.IntRange(0, 9).Draw(t, "since"))
		f.Since = &since
	}
	if maybe("until") {
		until := modelStart + nostr.Timestamp(rapid.IntRange(0, 9).Draw(t, "until"))
		f.Until = &until
	}
	if maybe("limit") {
		f.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
	}
	return f
}

// modelPut is the store as a list: the rules of NIP-01 in the plainest form.
func modelPut(list []nostr.Event, ev nostr.Event) ([]nostr.Event, outcome) {
	address, replaceable := nip01.Address(&ev)
	for i, old := range list {
		if old.ID == ev.ID {
			return list, outcomeDuplicate
		}
		if a, _ := nip01.Address(&old); replaceable && a == address {
			if old.CreatedAt > ev.CreatedAt || old.CreatedAt == ev.CreatedAt && old.ID < ev.ID {
				return list, outcomeSuperseded
			}
			list = slices.Delete(slices.Clone(list), i, i+1)
			break
		}
	}
	return append(list, ev), outcomeStored
}

func modelFind(list []nostr.Event, f nostr.Filter, limit int) []string {
	var found []nostr.Event
	for _, ev := range list {
		if f.Matches(&ev) {
			found = append(found, ev)
		}
	}
	slices.SortFunc(found, func(a, b nostr.Event) int {
		if a.CreatedAt != b.CreatedAt {
			return int(b.CreatedAt - a.CreatedAt)
		}
		return strings.Compare(a.ID, b.ID)
	})
	if f.Limit > 0 {
		limit = min(limit, f.Limit)
	}
	var ids []string
	for _, ev := range found[:min(limit, len(found))] {
		ids = append(ids, ev.ID)
	}
	return ids
}

func TestStoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		srv, err := New(t.Context(), Config{Dir: t.TempDir(), Limits: Limits{MaxLimit: 6}})
		if err != nil {
			rt.Fatal(err)
		}
		defer srv.Close()
		var list []nostr.Event
		events := rapid.SliceOfN(rapid.Custom(modelEvent), 1, 25).Draw(rt, "events")
		var jobs []*job
		var want []outcome
		for i := range events {
			var o outcome
			list, o = modelPut(list, events[i])
			want = append(want, o)
			jobs = append(jobs, &job{event: &events[i], raw: nip01.Marshal(&events[i])})
		}
		got, err := srv.store.put(jobs)
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("put: %v %v, want %v", got, err, want)
		}
		for range 8 {
			f := modelFilter(rt, events)
			q := srv.request(srv.queries.join("model"), nil)
			rows, err := q.find(t.Context(), &f)
			if err != nil {
				rt.Fatal(err)
			}
			loaded, err := q.load(t.Context(), rows, &f)
			if err != nil {
				rt.Fatal(err)
			}
			var ids []string
			for _, e := range loaded {
				ids = append(ids, e.id)
			}
			if want := modelFind(list, f, 6); !slices.Equal(ids, want) {
				rt.Fatalf("filter %s found\n%v, want\n%v", nip01.AppendFilter(nil, &f), ids, want)
			}
		}
	})
}

// TestIndexAgainstModel compares the live index with trying every filter.
func TestIndexAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(modelEvent), 1, 10).Draw(rt, "events")
		x := newIndex(1<<20, 1<<20)
		var subs []*subscription
		clients := []*client{{host: &host{}}, {host: &host{}}}
		for range rapid.IntRange(1, 6).Draw(rt, "subs") {
			sub := &subscription{client: rapid.SampledFrom(clients).Draw(rt, "client")}
			for range rapid.IntRange(1, 3).Draw(rt, "filters") {
				sub.filters = append(sub.filters, modelFilter(rt, events))
			}
			x.add(sub)
			subs = append(subs, sub)
		}
		for i := range events {
			found, work := x.matching(&events[i], uint64(i+1))
			if most := 3*len(newTarget(&events[i]).keys) + 3*(clients[0].values+clients[1].values); work > most {
				rt.Fatalf("%d look-ups, want at most %d", work, most)
			}
			for _, sub := range subs {
				n := 0
				for _, f := range found {
					if f == sub {
						n++
					}
				}
				if want := nostr.Filters(sub.filters).Match(&events[i]); n > 1 || (n == 1) != want {
					rt.Fatalf("subscription found %d times, want %v", n, want)
				}
			}
		}
		for _, sub := range subs {
			x.remove(sub)
		}
		if len(x.keys) > 0 || x.counted != 0 {
			rt.Fatalf("%d keys and %d values are left", len(x.keys), x.counted)
		}
		for _, c := range clients {
			if len(c.live.byKey) > 0 || c.values != 0 {
				rt.Fatalf("%d keys and %d values of a client are left", len(c.live.byKey), c.values)
			}
		}
	})
}
