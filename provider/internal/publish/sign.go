package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
)

// A key that is elsewhere is slow, or away, or says no. No job may wait for it
// between two commits, and no transaction at all. So with [Config].SignLater an
// event is committed with its id, which does not depend on the signature, and
// signed on its way out: the job goes on to where it needs a relay's OK.

// ErrSignerRefuses is wrapped by a Signer that will not sign an event, asked as
// often as you like; any other error passes.
var ErrSignerRefuses = errors.New("the signer refuses")

const (
	// SignerName stands for the signer among those who answer to an event.
	SignerName = "signer"
	// signingAtOnce bounds the questions to a remote signer that are open.
	signingAtOnce = 16
	// SignTries is how often a result's signature may be refused before its job
	// fails and the money goes back.
	SignTries = 3
	// laterBytes is the largest event for a remote signer: it travels inside
	// texts inside a NIP-44 message of 64 KiB, which doubles it at worst.
	laterBytes = 30 << 10
)

// compose fills in what an event has before it is signed.
func (p *Publisher) compose(ev *nostr.Event) {
	ev.PubKey = p.key
	ev.ID = ev.GetID()
}

// MaxEvent is the largest event, in bytes, that can be signed and that relays take.
func (p *Publisher) MaxEvent() int {
	if p.cfg.SignLater {
		return laterBytes
	}
	return eventBytes
}

// unsigned is an event of the outbox that waits for its signature.
type unsigned struct {
	out job.OutEvent
	ev  nostr.Event
}

// serveUnsigned has events signed, some at once, and hands them on.
func (p *Publisher) serveUnsigned(ctx context.Context, signers *errgroup.Group) {
	for range signingAtOnce {
		signers.Go(func() error {
			for {
				select {
				case u := <-p.unsigned:
					p.signOne(ctx, u)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
}

// later queues an event for the signer. A full queue leaves it to the next look
// at the store.
func (p *Publisher) later(out job.OutEvent, ev nostr.Event) {
	select {
	case p.unsigned <- unsigned{out, ev}:
	default:
		p.landed(out.EventID)
	}
}

// signOne has one event signed. The signature is kept, so that a signer whose
// owner has to agree is asked once.
func (p *Publisher) signOne(ctx context.Context, u unsigned) {
	log := p.log.With("event", u.out.EventID, "kind", u.ev.Kind, "request", u.out.RequestID)
	err := p.cfg.Signer.Sign(ctx, &u.ev)
	if err == nil && u.ev.ID != u.out.EventID {
		err = ErrSignerRefuses // it must not choose what it signs
	}

	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrSignerRefuses):
		log.Error("the signer refuses", "err", err)
		no := job.Ack{EventID: u.out.EventID, Relay: SignerName, Message: err.Error(), At: time.Now().UTC()}
		if err := p.cfg.Store.AddAcks(ctx, no); err != nil {
			log.Error("record the signer's answer", "err", err)
			p.cfg.OnStoreError(err)
		}
		if u.out.RequestID != "" {
			p.cfg.OnAck(u.out.RequestID, []job.Ack{no})
		}
	case err != nil:
		log.Warn("an event waits for its signature, trying again", "in", retryEvery, "err", err)
	default:
		if err = p.cfg.Store.SetSignature(ctx, u.out.EventID, u.ev.Sig); err != nil {
			log.Error("record signature", "err", err)
			p.cfg.OnStoreError(err)
			break
		}
		u.out.Sig = u.ev.Sig
		p.landed(u.out.EventID)
		p.Send(u.out)
		return
	}

	p.landed(u.out.EventID)
}

// SignNow signs what is not queued anywhere and may be lost.
func (p *Publisher) SignNow(ctx context.Context, ev *nostr.Event) error {
	if ev.Sig != "" {
		return nil
	}
	return p.cfg.Signer.Sign(ctx, ev)
}

// eventBytes is the largest signed event we make: relays take 64 KiB.
const eventBytes = 60 << 10

// Sign makes a document of ours, now; one without its signature where the key
// is elsewhere. No tag that was copied may say what the document is.
func (p *Publisher) Sign(ctx context.Context, kind int, d domain.Domain, tags nostr.Tags, content string) (nostr.Event, error) {
	if found, err := domain.Of(tags); err != nil || found != "" {
		return nostr.Event{}, fmt.Errorf("sign %s: it has a tag %s already", d, domain.TagName)
	}
	return p.SignTags(ctx, kind, append(slices.Clip(tags), d.Tag()), content)
}

// SignTags is Sign for tags that are complete.
func (p *Publisher) SignTags(ctx context.Context, kind int, tags nostr.Tags, content string) (nostr.Event, error) {
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(time.Now().Unix()), Tags: tags, Content: content}
	if p.cfg.SignLater {
		p.compose(&ev)
		return ev, nil
	}
	if err := p.cfg.Signer.Sign(ctx, &ev); err != nil {
		return ev, fmt.Errorf("sign kind %d: %w", kind, err)
	}
	return ev, nil
}

// Queue makes the event one that must reach relays.
func (p *Publisher) Queue(ev nostr.Event, requestID string) (job.OutEvent, error) {
	d, err := domain.Of(ev.Tags)
	if err != nil {
		return job.OutEvent{}, err
	}
	raw, err := ev.MarshalJSON()
	if err != nil {
		return job.OutEvent{}, err
	}
	return job.OutEvent{
		EventID: ev.ID, Event: raw, RequestID: requestID, Domain: string(d),
		Relays: p.cfg.Market.Relays(), Required: 1, Made: &ev,
	}, nil
}

// Lifecycle makes an event of ours of a lifecycle document.
func (p *Publisher) Lifecycle(ctx context.Context, kind int, doc lifecycle.Document, more ...nostr.Tag) (nostr.Event, error) {
	raw, content, err := lifecycle.Encode(doc)
	if err != nil {
		return nostr.Event{}, err
	}
	tags := nostr.Tags(more)
	for _, t := range raw {
		tags = append(tags, t)
	}
	return p.SignTags(ctx, kind, tags, content)
}
