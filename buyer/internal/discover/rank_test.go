package discover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/discover"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	run   = "oa.sandbox_run.v1"
	embed = "oa.embedding.v1"
)

// TestRanking: each thing that is known moves a provider before one that has all
// the rest the same or better, and is said. The word of strangers moves nobody.
func TestRanking(t *testing.T) {
	const fresh, stale = time.Minute, 5 * time.Hour
	me, friend, stranger := markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t)
	address := func(k *relay.Key) nostr.Tag {
		return nostr.Tag{"a", "31990:" + k.PublicKey() + ":lightwork", "", "web"}
	}
	beat := func(b *markettest.Board, by *relay.Key, age time.Duration) {
		b.Add(by, 11998, age, "", nostr.Tag{"d", "lightwork"})
	}
	for name, tt := range map[string]struct {
		// The better one costs a tenth more, or as much as dearer says.
		set  func(b *markettest.Board, better, worse *relay.Key) map[string]discover.History
		age  time.Duration // of the better one's announcement
		why  string
		same bool // it moves nobody: the cheaper one stays first

		dearer int64
	}{
		"a beat": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			beat(b, better, time.Minute)
			return nil
		}, age: fresh, why: "alive 1m", dearer: 100},
		"a beat that is too old": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			beat(b, better, 20*time.Minute)
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"a beat of somebody else's": {set: func(b *markettest.Board, _, _ *relay.Key) map[string]discover.History {
			beat(b, stranger, time.Minute)
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"silence": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			return map[string]discover.History{better.PublicKey(): {Done: 5}}
		}, age: stale, why: "silent", same: true},
		"jobs done for us": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			return map[string]discover.History{better.PublicKey(): {Done: 2}}
		}, age: fresh, why: "2 done for us"},
		"jobs done for us, and dearer than a tenth": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			return map[string]discover.History{better.PublicKey(): {Done: 2}}
		}, age: fresh, why: "2 done for us", same: true, dearer: 110},
		"requests missed": {set: func(b *markettest.Board, _, worse *relay.Key) map[string]discover.History {
			beat(b, worse, time.Minute)
			return map[string]discover.History{worse.PublicKey(): {Done: 9, Missed: 1, MissedAt: time.Now().Add(-time.Minute)}}
		}, age: fresh, why: "announced 1m", dearer: 9_000},
		"a request missed some time ago": {set: func(b *markettest.Board, _, worse *relay.Key) map[string]discover.History {
			return map[string]discover.History{worse.PublicKey(): {Missed: 1, MissedAt: time.Now().Add(-time.Hour)}}
		}, age: fresh, why: "announced 1m", same: true},
		"many requests missed some time ago": {set: func(b *markettest.Board, _, worse *relay.Key) map[string]discover.History {
			return map[string]discover.History{worse.PublicKey(): {Missed: 6, MissedAt: time.Now().Add(-time.Hour)}}
		}, age: fresh, why: "announced 1m", dearer: 9_000},
		"money lost": {set: func(b *markettest.Board, better, worse *relay.Key) map[string]discover.History {
			beat(b, worse, time.Minute)
			return map[string]discover.History{worse.PublicKey(): {Done: 9, Lost: 1}}
		}, age: fresh, why: "announced 1m"},
		"followed": {set: func(b *markettest.Board, better, worse *relay.Key) map[string]discover.History {
			b.Add(me, 3, time.Hour, "", nostr.Tag{"p", worse.PublicKey()}) // an older list
			b.Add(me, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "we follow it"},
		"followed by a stranger": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			b.Add(stranger, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"recommended by whom we follow": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			b.Add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.Add(friend, 31989, time.Minute, "", nostr.Tag{"d", "5050"}, address(better), address(better))
			return nil
		}, age: fresh, why: "recommended by 1 that we follow"},
		"followed by whom we follow": {set: func(b *markettest.Board, better, worse *relay.Key) map[string]discover.History {
			b.Add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.Add(friend, 3, time.Hour, "", nostr.Tag{"p", worse.PublicKey()}) // an older list, that names both
			b.Add(friend, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()}, nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "followed by 1 that we follow"},
		"recommended for another kind": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			b.Add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.Add(friend, 31989, time.Minute, "", nostr.Tag{"d", "1"}, address(better))
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"recommended by a crowd of strangers": {set: func(b *markettest.Board, better, _ *relay.Key) map[string]discover.History {
			for range 20 {
				b.Add(markettest.NewKey(t), 31989, time.Minute, "", nostr.Tag{"d", "5050"}, address(better))
			}
			return nil
		}, age: fresh, why: "announced 1m", same: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &markettest.Board{T: t}
			better, worse := markettest.NewKey(t), markettest.NewKey(t)
			if tt.dearer == 0 {
				tt.dearer = 100
			}
			b.Announce(better, tt.age, map[string]int64{run: 1_000 + tt.dearer}, map[string]int64{run: 0})
			b.Announce(worse, fresh, map[string]int64{run: 1_000}, map[string]int64{run: 0})
			history := tt.set(b, better, worse)
			found, err := discover.Scout{Market: b, Key: me.PublicKey(), History: history}.Find(t.Context(), run, "")
			if err != nil || len(found) != 2 {
				t.Fatalf("%d found, %v", len(found), err)
			}
			first, at := better, 0
			if tt.same {
				first, at = worse, 1
			}
			if found[0].Provider != first.PublicKey() {
				t.Errorf("first is the other one: %q before %q", found[0].Why, found[1].Why)
			}
			if why := strings.Join(found[at].Why, ", "); !strings.Contains(why, tt.why) {
				t.Errorf("why: %s", why)
			}
		})
	}
}

// TestPriceOfEachJobType: what one type costs says nothing of another; the list
// is ordered by the one that was asked for.
func TestPriceOfEachJobType(t *testing.T) {
	b := &markettest.Board{T: t}
	one, two := markettest.NewKey(t), markettest.NewKey(t)
	b.Announce(one, time.Minute, map[string]int64{run: 1_000, embed: 50}, map[string]int64{run: 500, embed: 0})
	b.Announce(two, time.Minute, map[string]int64{run: 0, embed: 20}, map[string]int64{run: 2_000, embed: 0})
	for schema, want := range map[string]string{run: one.PublicKey(), embed: two.PublicKey()} {
		found, err := discover.Scout{Market: b}.Find(t.Context(), schema, "")
		if err != nil || len(found) != 2 || found[0].Provider != want {
			t.Fatalf("%s: %+v, %v", schema, found, err)
		}
		for _, f := range found {
			if f.Provider == one.PublicKey() && (f.MinuteMsats[run] != 1_500 || f.MinuteMsats[embed] != 50) {
				t.Errorf("prices %v", f.MinuteMsats)
			}
		}
	}
	// A provider of an earlier version announces one price a minute for all.
	l := discover.Listing{PerMinuteMsats: 7, BaseMsats: map[string]int64{run: 1}}
	if price, ok := l.PriceMsats(run, 90*time.Second); !ok || price != 15 {
		t.Errorf("%d, %v", price, ok)
	}
}
