package announce

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

const (
	// BeatEvery is how often a provider says that it is alive.
	BeatEvery = 5 * time.Minute
	// beatsKept is how many of our own beats are known again: more than are said while
	// one counts.
	beatsKept = 64
)

// clientTag marks what this program wrote and so may write again.
func clientTag() nostr.Tag { return nostr.Tag{"client", "lightwork"} }

func (a *Announcer) d() string {
	return cmp.Or(a.cfg.Profile.D, "lightwork")
}

// ServePresence tells, from the moment ready is closed, who this is, once, and that it is alive, every five
// minutes. Both are courtesies: what is lost is not sent again.
func (a *Announcer) ServePresence(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}

	a.introduce(ctx)

	// An earlier life may have taken its beat back in this very second, which would
	// take a new one back too.
	select {
	case <-time.After(time.Until(time.Unix(a.began.Unix()+1, 0))):
	case <-ctx.Done():
		return ctx.Err()
	}

	tick := time.NewTicker(BeatEvery)
	defer tick.Stop()

	for {
		a.cfg.Publisher.Offer(a.Beat)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// goodbyeTime is how long the end of a provider waits for relays that do not answer.
const goodbyeTime = 3 * time.Second

// Goodbye tells the relays that no jobs are taken here any more: the announcement
// says so until the next start, and the beat is taken back. Buyers would otherwise
// ask, and wait for, a provider that is gone. It is a courtesy, so nothing hangs on it.
func (a *Announcer) Goodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()

	if err := a.turn.begin(ctx); err != nil {
		return
	}
	defer a.turn.end()

	said, err := a.announcement(ctx, a.cfg.Prices())
	if err != nil {
		a.log.Warn("the relays are not told that this provider has stopped", "err", err)
		return
	}
	said.Capacity.MaxConcurrentJobs, said.Lightwork.Paused = 0, true

	var sent sync.WaitGroup
	for _, write := range []func() (nostr.Event, error){
		func() (nostr.Event, error) { return a.announcementEvent(ctx, said) },
		func() (nostr.Event, error) {
			return a.cfg.Publisher.Sign(ctx, kinds.Deletion, domain.Deletion, nostr.Tags{{"a", fmt.Sprintf("%d:%s:", kinds.Beat, a.cfg.Key)}, {"k", strconv.Itoa(kinds.Beat)}}, "stopped")
		},
	} {
		ev, err := write()
		if err == nil {
			err = a.cfg.Publisher.SignNow(ctx, &ev)
		}
		if err != nil {
			a.log.Warn("the relays are not told that this provider has stopped", "err", err)
			continue
		}
		sent.Go(func() { a.cfg.Publisher.Publish(ctx, ev) })
	}

	sent.Wait()
}

// Beat is the event that says that this provider is alive.
func (a *Announcer) Beat(ctx context.Context) (nostr.Event, error) {
	end := strconv.FormatInt(time.Now().Add(BeatEvery).Unix(), 10)
	ev, err := a.cfg.Publisher.Sign(ctx, kinds.Beat, domain.Beat, nostr.Tags{{"d", a.d()}, {"expiration", end}}, "")
	a.beats.Add(ev.ID)
	return ev, err
}

// introduce publishes the profile and the relay list of the key, if the relays
// have none or one that this program wrote: the key may be a person's, who has
// better ones.
func (a *Announcer) introduce(ctx context.Context) {
	have, err := a.cfg.Market.Query(ctx, nostr.Filter{Kinds: []int{kinds.Profile, kinds.RelayList}, Authors: []string{a.cfg.Key}})
	if err != nil {
		return
	}
	pr := a.cfg.Profile
	fields := map[string]any{
		"name": pr.Name, "about": pr.About, "picture": pr.Picture, "website": pr.Website, "lud16": pr.LUD16, "bot": true,
	}
	if pr.NIP05 != "" {
		fields["nip05"] = pr.NIP05
	}
	profile, err := json.Marshal(fields)
	if err != nil {
		return
	}
	list := nostr.Tags{clientTag()}
	for _, url := range a.cfg.Market.Relays() {
		list = append(list, nostr.Tag{"r", url})
	}

	for kind, write := range map[int]func(context.Context) (nostr.Event, error){
		kinds.Profile: func(ctx context.Context) (nostr.Event, error) {
			return a.cfg.Publisher.SignTags(ctx, kinds.Profile, nostr.Tags{clientTag()}, string(profile))
		},
		kinds.RelayList: func(ctx context.Context) (nostr.Event, error) {
			return a.cfg.Publisher.SignTags(ctx, kinds.RelayList, list, "")
		},
	} {
		theirs := slices.ContainsFunc(have, func(ev nostr.Event) bool {
			return ev.Kind == kind && ev.Tags.FindWithValue("client", "lightwork") == nil
		})
		if !theirs {
			a.cfg.Publisher.Offer(write)
		}
	}
}

// IsOurs reports whether this life made a beat.
func (a *Announcer) IsOurs(beatID string) bool { return a.beats.Has(beatID) }
