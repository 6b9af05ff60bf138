package provider

import (
	"context"
	"errors"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"
)

// A key that is elsewhere is slow, or away, or says no. No job may wait for it
// between two commits, and no transaction at all. So with Config.SignLater an
// event is committed with its id, which does not depend on the signature, and
// signed on its way out: the job goes on to where it needs a relay's OK.

// ErrSignerRefuses is wrapped by a Signer that will not sign an event, asked as
// often as you like; any other error passes.
var ErrSignerRefuses = errors.New("the signer refuses")

const (
	// signerName stands for the signer among those who answer to an event.
	signerName = "signer"
	// signingAtOnce bounds the questions to a remote signer that are open.
	signingAtOnce = 16
	// signTries is how often a result's signature may be refused before its job
	// fails and the money goes back.
	signTries = 3
	// laterBytes is the largest event for a remote signer: it travels inside
	// texts inside a NIP-44 message of 64 KiB, which doubles it at worst.
	laterBytes = 30 << 10
)

// compose fills in what an event has before it is signed.
func (p *Provider) compose(ev *nostrEvent) {
	ev.PubKey = p.key
	ev.ID = ev.GetID()
}

// maxEvent is the largest event that can be signed and that relays take.
func (p *Provider) maxEvent() int {
	if p.cfg.SignLater {
		return laterBytes
	}
	return eventBytes
}

// unsigned is an event of the outbox that waits for its signature.
type unsigned struct {
	out OutEvent
	ev  nostrEvent
}

// serveUnsigned has events signed, some at once, and hands them on.
func (o *outbox) serveUnsigned(ctx context.Context, signers *errgroup.Group) {
	for range signingAtOnce {
		signers.Go(func() error {
			for {
				select {
				case u := <-o.unsigned:
					o.signOne(ctx, u)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
}

// later queues an event for the signer. A full queue leaves it to the next look
// at the store.
func (o *outbox) later(out OutEvent, ev nostrEvent) {
	select {
	case o.unsigned <- unsigned{out, ev}:
	default:
		o.landed(out.EventID)
	}
}

// signOne has one event signed. The signature is kept, so that a signer whose
// owner has to agree is asked once.
func (o *outbox) signOne(ctx context.Context, u unsigned) {
	log := o.log.With("event", u.out.EventID, "kind", u.ev.Kind, "request", u.out.RequestID)
	err := o.signer.Sign(ctx, &u.ev)
	if err == nil && u.ev.ID != u.out.EventID {
		err = ErrSignerRefuses // it must not choose what it signs
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrSignerRefuses):
		log.Error("the signer refuses", "err", err)
		no := Ack{EventID: u.out.EventID, Relay: signerName, Message: err.Error(), At: time.Now().UTC()}
		if err := o.store.AddAcks(ctx, no); err != nil {
			log.Error("record the signer's answer", "err", err)
			o.failed(err)
		}
		if u.out.RequestID != "" {
			o.told(u.out.RequestID, []Ack{no})
		}
	case err != nil:
		log.Warn("an event waits for its signature, trying again", "in", outboxRetry, "err", err)
	default:
		if err = o.store.SetSignature(ctx, u.out.EventID, u.ev.Sig); err != nil {
			log.Error("record signature", "err", err)
			o.failed(err)
			break
		}
		u.out.Sig = u.ev.Sig
		o.landed(u.out.EventID)
		o.send(u.out)
		return
	}
	o.landed(u.out.EventID)
}

// signBrief signs what is not queued anywhere and may be lost.
func (o *outbox) signBrief(ctx context.Context, ev *nostr.Event) error {
	if ev.Sig != "" {
		return nil
	}
	return o.signer.Sign(ctx, ev)
}
