package provider

import (
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
	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

const (
	beatEvery = 5 * time.Minute
	// pingWindow is how old a ping may be that is answered.
	pingWindow = 5 * time.Minute
)

// clientTag marks what this program wrote and so may write again.
func clientTag() nostr.Tag { return nostr.Tag{"client", "lightwork"} }

func (p *Provider) d() string {
	d := p.cfg.Profile.D
	def(&d, "lightwork")
	return d
}

// servePresence tells who this is, once, and that it is alive, every five
// minutes. Both are courtesies: what is lost is not sent again.
func (p *Provider) servePresence(ctx context.Context) error {
	select {
	case <-p.listening:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.introduce(ctx)
	// An earlier life may have taken its beat back in this very second, which would
	// take a new one back too.
	select {
	case <-time.After(time.Until(time.Unix(p.began.Unix()+1, 0))):
	case <-ctx.Done():
		return ctx.Err()
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		p.pub.Offer(p.beat)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// goodbyeTime is how long the end of a provider waits for relays that do not answer.
const goodbyeTime = 3 * time.Second

// sayGoodbye tells the relays that no jobs are taken here any more: the announcement
// says so until the next start, and the beat is taken back. Buyers would otherwise
// ask, and wait for, a provider that is gone. It is a courtesy, so nothing hangs on it.
func (p *Provider) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()
	if err := p.announcing.begin(ctx); err != nil {
		return
	}
	defer p.announcing.end()
	a, err := p.announcement(ctx)
	if err != nil {
		p.log.Warn("the relays are not told that this provider has stopped", "err", err)
		return
	}
	a.Capacity.MaxConcurrentJobs, a.Lightwork.Paused = 0, true

	var sent sync.WaitGroup
	for _, write := range []func() (nostr.Event, error){
		func() (nostr.Event, error) { return p.announcementEvent(ctx, a) },
		func() (nostr.Event, error) {
			return p.pub.Sign(ctx, kinds.Deletion, domain.Deletion, nostr.Tags{{"a", fmt.Sprintf("%d:%s:", kinds.Beat, p.key)}, {"k", strconv.Itoa(kinds.Beat)}}, "stopped")
		},
	} {
		ev, err := write()
		if err == nil {
			err = p.pub.SignNow(ctx, &ev)
		}
		if err != nil {
			p.log.Warn("the relays are not told that this provider has stopped", "err", err)
			continue
		}
		sent.Go(func() { p.pub.Publish(ctx, ev) })
	}
	sent.Wait()
}

func (p *Provider) beat(ctx context.Context) (nostr.Event, error) {
	end := strconv.FormatInt(time.Now().Add(beatEvery).Unix(), 10)
	ev, err := p.pub.Sign(ctx, kinds.Beat, domain.Beat, nostr.Tags{{"d", p.d()}, {"expiration", end}}, "")
	p.beats.Add(ev.ID)
	return ev, err
}

// introduce publishes the profile and the relay list of the key, if the relays
// have none or one that this program wrote: the key may be a person's, who has
// better ones.
func (p *Provider) introduce(ctx context.Context) {
	have, err := p.cfg.Market.Query(ctx, nostr.Filter{Kinds: []int{kinds.Profile, kinds.RelayList}, Authors: []string{p.key}})
	if err != nil {
		return
	}
	pr := p.cfg.Profile
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
	for _, url := range p.cfg.Market.Relays() {
		list = append(list, nostr.Tag{"r", url})
	}
	for kind, write := range map[int]func(context.Context) (nostr.Event, error){
		kinds.Profile: func(ctx context.Context) (nostr.Event, error) {
			return p.pub.SignTags(ctx, kinds.Profile, nostr.Tags{clientTag()}, string(profile))
		},
		kinds.RelayList: func(ctx context.Context) (nostr.Event, error) { return p.pub.SignTags(ctx, kinds.RelayList, list, "") },
	} {
		theirs := slices.ContainsFunc(have, func(ev nostr.Event) bool {
			return ev.Kind == kind && ev.Tags.FindWithValue("client", "lightwork") == nil
		})
		if !theirs {
			p.pub.Offer(write)
		}
	}
}

// ping answers a question whether this key is there, as often as bad requests
// are answered.
func (p *Provider) ping(ctx context.Context, ev nostr.Event) {
	if !p.isPing(ev) || !p.seen.Add(ev.ID) || !p.pings.allow(ev.PubKey, time.Now(), func() bool { return p.isCustomer(ctx, ev.PubKey) }) {
		return
	}
	p.pub.Offer(func(ctx context.Context) (nostr.Event, error) {
		return p.pub.FeedbackEvent(ctx, publish.Addressee{Request: ev.ID, Buyer: ev.PubKey}, "pong", "", "")
	})
}

// isPing reports whether an event asks this provider, and now.
func (p *Provider) isPing(ev nostr.Event) bool {
	age := time.Since(ev.CreatedAt.Time())
	return age <= pingWindow && age >= -pingWindow && ev.Tags.ContainsAny("p", []string{p.key}) && domain.Allow(domain.Ping, ev.Tags) == nil
}

// Retire asks the relays to delete the announcement of a provider that will not
// be back (NIP-09), and says what each answered. A provider that still runs
// would announce itself again. d is that of its Profile.
func Retire(ctx context.Context, signer Signer, market Market, d string) ([]Ack, error) {
	def(&d, "lightwork")
	ev := nostr.Event{
		Kind: kinds.Deletion, CreatedAt: nostr.Timestamp(time.Now().Unix()), Content: "this provider has retired",
		Tags: nostr.Tags{
			{"a", fmt.Sprintf("%d:%s:%s", kinds.Announcement, signer.PublicKey(), d)},
			{"k", strconv.Itoa(kinds.Announcement)},
			{"a", fmt.Sprintf("%d:%s:", kinds.Beat, signer.PublicKey())},
			{"k", strconv.Itoa(kinds.Beat)},
			domain.Deletion.Tag(),
		},
	}
	if err := signer.Sign(ctx, &ev); err != nil {
		return nil, fmt.Errorf("sign kind %d: %w", ev.Kind, err)
	}
	return market.Publish(ctx, ev), nil
}
