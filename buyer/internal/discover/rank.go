package discover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// aliveFor is how old a beat may be: others call one of 900 s dead.
	aliveFor = 15 * time.Minute
	// freshFor is how old an announcement may be and still be a sign of life:
	// ours are sent again every hour.
	freshFor = 2 * time.Hour
	// followsMax bounds whose word counts.
	followsMax = 2000
	// filterMax is how many authors one filter may name on a relay like ours.
	filterMax = 200
)

// History is what our own store knows of a provider.
type History struct {
	Done int // jobs that ended with all that was promised
	Lost int // payments that nothing valid came for
	// CreditMsats is what the provider signed that it owes us, less what its later
	// quotes were lowered by.
	CreditMsats int64
	// Missed is how many requests of the last day it left unanswered, or answered
	// with an offer that was not the one it announced; MissedAt is the last one.
	Missed   int
	MissedAt time.Time
}

// missPause is how long a provider that missed one request comes after all that
// did not; each further miss doubles it.
const missPause = 5 * time.Minute

// avoided reports whether the provider missed a request so lately that others are
// asked before it.
func (h History) avoided(now time.Time) bool {
	return h.Missed > 0 && now.Before(h.MissedAt.Add(missPause<<min(h.Missed-1, 9)))
}

// Found is a provider that announces itself, with what else is known of it and
// why it has its place in the list.
type Found struct {
	Listing
	// MinuteMsats is what a job costs, by schema id, that may take one minute, with
	// 1000 tokens in and out where tokens have a price.
	MinuteMsats map[string]int64 `json:"minute_msats"`
	BeatAt      *time.Time       `json:"beat_at,omitempty"`
	Done        int              `json:"done_for_us"`
	Lost        int              `json:"lost_with_it"`
	CreditMsats int64            `json:"credit_with_it_msats,omitempty"` // it says that it owes us
	Missed      int              `json:"missed_today,omitempty"`         // requests that it left unanswered or cheated on
	MissedAt    *time.Time       `json:"missed_at,omitempty"`
	Followed    bool             `json:"followed"`
	Recommended int              `json:"recommended"` // by so many that we follow
	FollowedBy  int              `json:"followed_by"` // so many that we follow
	Why         []string         `json:"why"`

	// CostMsats is what it is ranked by: the price of the job at hand, or of one minute.
	CostMsats int64 `json:"-"`
	avoided   bool
}

// Market is the relays that announcements are on.
type Market interface {
	// Query returns stored events, from all relays, each once.
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
}

// Scout looks for providers. It needs neither a wallet nor a store.
type Scout struct {
	Market Market
	// Key is ours, x-only hex: who it follows counts. "" follows nobody.
	Key string
	// RequestKind is what providers announce (5050).
	RequestKind int
	// History is by provider; nil if there is none.
	History map[string]History
}

// Find lists who announces that it runs the job type (all if schemaID is ""),
// best first; provider limits it to one key. The order is, as far as each
// decides: those that speak our profile before programs that know NIP-90 alone;
// those that took our money for nothing last; those that missed our last requests
// after the others; those that live; the price of the job type. Among those whose
// prices are within a tenth of the cheapest's, those come first that we bought from
// or follow, then those that whom we follow recommend or follow. The word of keys
// that we do not follow counts for nothing, for anybody can have a thousand.
func (s Scout) Find(ctx context.Context, schemaID, provider string) ([]Found, error) {
	var keys []string
	if provider != "" {
		keys = append(keys, provider)
	}
	return s.FindAmong(ctx, schemaID, keys)
}

// FindAmong is Find for some keys; none is everybody.
func (s Scout) FindAmong(ctx context.Context, schemaID string, keys []string) ([]Found, error) {
	if s.RequestKind == 0 {
		s.RequestKind = kinds.Request
	}
	list, err := s.listings(ctx, schemaID, keys)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if err := s.noteEnds(ctx, list); err != nil {
		return nil, err
	}
	if len(keys) == 0 { // of a key that was asked for, its end is the answer
		list = slices.DeleteFunc(list, func(l Listing) bool { return l.End != nil })
	}
	beats, err := s.beats(ctx, list)
	if err != nil {
		return nil, err
	}
	follows, err := s.follows(ctx)
	if err != nil {
		return nil, err
	}
	recommended, err := s.recommendations(ctx, follows)
	if err != nil {
		return nil, err
	}
	friends, err := s.followedBy(ctx, follows, list)
	if err != nil {
		return nil, err
	}

	found := make([]Found, len(list))
	for i, l := range list {
		f := Found{
			Listing: l, MinuteMsats: map[string]int64{}, Followed: slices.Contains(follows, l.Provider),
			Recommended: recommended[l.Provider+":"+l.D], FollowedBy: friends[l.Provider], Done: s.History[l.Provider].Done, Lost: s.History[l.Provider].Lost,
			CreditMsats: s.History[l.Provider].CreditMsats,
		}
		f.NoteMissed(s.History[l.Provider])

		for _, job := range l.Jobs {
			if price, ok := l.minute(job); ok {
				f.MinuteMsats[job] = price
			}
		}

		if at, ok := beats[l.Provider+":"+l.D]; ok {
			f.BeatAt = &at
		}
		f.CostMsats = f.price(schemaID)
		f.Why = f.reasons()
		found[i] = f
	}

	Rank(found, func(f *Found) *Found { return f })
	return found, nil
}

// NoteMissed notes what the history says of requests that it did not serve.
func (f *Found) NoteMissed(h History) {
	if f.Missed = h.Missed; h.Missed > 0 {
		f.MissedAt, f.avoided = &h.MissedAt, h.avoided(time.Now())
	}
}

// Rank puts the better choice first. Price decides among those that are alike in
// what is worse than a price. Trust decides only where prices are close: else
// whoever was bought from once could ask any price afterwards.
func Rank[T any](list []T, of func(*T) *Found) {
	slices.SortStableFunc(list, func(a, b T) int {
		x, y := of(&a), of(&b)
		return cmp.Or(x.compareClass(y), cmp.Compare(x.CostMsats, y.CostMsats), strings.Compare(x.Provider, y.Provider))
	})

	for begin := 0; begin < len(list); {
		cheapest, end := of(&list[begin]), begin+1
		for end < len(list) && of(&list[end]).compareClass(cheapest) == 0 && of(&list[end]).near(cheapest.CostMsats) {
			end++
		}
		slices.SortStableFunc(list[begin:end], func(a, b T) int {
			x, y := of(&a), of(&b)
			return cmp.Or(-cmp.Compare(x.trust(), y.trust()), cmp.Compare(x.CostMsats, y.CostMsats), -cmp.Compare(x.Done, y.Done))
		})
		begin = end
	}
}

// compareClass orders by what no price makes good.
func (f *Found) compareClass(o *Found) int {
	avoided := map[bool]int{true: 1}
	return cmp.Or(
		-cmp.Compare(f.serves(), o.serves()),
		cmp.Compare(f.Lost, o.Lost),
		cmp.Compare(avoided[f.avoided], avoided[o.avoided]),
		-cmp.Compare(f.life(), o.life()),
	)
}

// near reports whether the price is at most a tenth above the cheapest.
func (f *Found) near(cheapestMsats int64) bool {
	return f.CostMsats-cheapestMsats <= cheapestMsats/10
}

// serves is 2 for who speaks our profile, 1 while it takes no jobs, 0 for a
// program that knows NIP-90 alone.
func (f Found) serves() int {
	switch {
	case f.Plain:
		return 0
	case f.Paused:
		return 1
	}
	return 2
}

// life is 2 with a beat, 1 with an announcement that is fresh, else 0.
func (f Found) life() int {
	switch {
	case f.BeatAt != nil && time.Since(*f.BeatAt) < aliveFor:
		return 2
	case time.Since(f.UpdatedAt) < freshFor:
		return 1
	}
	return 0
}

// trust is 2 for those we know, 1 for those that whom we follow recommends or follows.
func (f Found) trust() int {
	switch {
	case f.Done > 0 || f.Followed:
		return 2
	case f.Recommended > 0, f.FollowedBy > 0:
		return 1
	}
	return 0
}

// price is that of the job type, or the lowest where none is named; a provider
// that names none comes after all that do.
func (f Found) price(schemaID string) int64 {
	least := int64(1<<63 - 1)
	for job, msats := range f.MinuteMsats {
		if schemaID == "" || job == schemaID {
			least = min(least, msats)
		}
	}
	return least
}

// reasons say in words what the order rests on.
func (f Found) reasons() []string {
	ago := func(at time.Time) string { return max(time.Since(at), 0).Round(time.Second).String() + " ago" }
	why := []string{}
	if f.Paused {
		why = append(why, "paused, takes no jobs now")
	}

	switch f.life() {
	case 2:
		why = append(why, "alive "+ago(*f.BeatAt))
	case 1:
		why = append(why, "announced "+ago(f.UpdatedAt))
	default:
		why = append(why, "silent: announced "+ago(f.UpdatedAt))
	}

	if f.Lost > 0 {
		why = append(why, fmt.Sprintf("payments to it that nothing came for: %d", f.Lost))
	}
	if f.Missed > 0 {
		why = append(why, fmt.Sprintf("did not serve %d of our requests today, the last one %s", f.Missed, ago(*f.MissedAt)))
	}
	if f.CreditMsats > 0 {
		why = append(why, fmt.Sprintf("says that it owes us %g sat of credit", float64(f.CreditMsats)/1000))
	}
	if f.Done > 0 {
		why = append(why, fmt.Sprintf("%d done for us", f.Done))
	}
	if f.Followed {
		why = append(why, "we follow it")
	}
	if f.Recommended > 0 {
		why = append(why, fmt.Sprintf("recommended by %d that we follow", f.Recommended))
	}
	if f.FollowedBy > 0 {
		why = append(why, fmt.Sprintf("followed by %d that we follow", f.FollowedBy))
	}
	return why
}

// minute is what a job of the type costs that may take a minute, with 1000 tokens
// in and out where tokens have a price: enough to compare providers by.
func (l Listing) minute(job string) (int64, bool) {
	t, ok := l.Prices[job]
	if !ok {
		return l.PriceMsats(schemas.ID(job), time.Minute)
	}
	sum := t.BaseMsats + t.PerMinuteMsats + t.InputMsats + t.OutputMsats // no overflow: each is below 2^53
	return sum, t.Valid()
}
