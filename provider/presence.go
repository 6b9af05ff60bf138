package provider

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

// pingWindow is how old a ping may be that is answered.
const pingWindow = 5 * time.Minute

// ping answers a question whether this key is there, as often as bad requests
// are answered.
func (p *Provider) ping(ctx context.Context, ev nostr.Event) {
	if !p.isPing(ev) || !p.pings.Add(ev.ID) || !p.gate.MayPong(ctx, ev.PubKey) {
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
