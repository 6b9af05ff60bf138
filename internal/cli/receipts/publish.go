package receipts

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

type receiptsPublishCmd struct {
	ID      string      `arg:"" help:"Receipt id or request id, or its beginning."`
	Role    config.Side `help:"Who publishes it: buyer or provider. Left out: who has the only wallet there is; of two the buyer." placeholder:"ROLE"`
	Retract bool        `help:"Ask the relays to delete the event."`
}

// Run publishes the pointer to a receipt, or its deletion, and prints what each
// relay answered.
func (c receiptsPublishCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	v, err := findReceipt(ctx, s, g, c.Role, c.ID)
	if err != nil {
		return err
	}
	hidden, err := isHidden(ctx, s, g, c.Role, v.RequestID)
	if err != nil {
		return err
	}
	if hidden && !c.Retract {
		return advice.Usage("receipts export makes a bundle for whom you choose", "the job of %s was encrypted: a pointer would show who bought from whom", display.ShortReceipt(v.ReceiptID))
	}

	cfg, err := app.Open(s, g)
	if err != nil {
		return err
	}
	ev, acks, err := cfg.Market().Publish(ctx, c.Role.Of(cfg.Config), func(key string) (nostr.Event, error) {
		if c.Retract {
			return retraction(v, key), nil
		}
		return pointerTo(v)
	}, func(ev nostr.Event) error {
		if c.Retract {
			return nil
		}
		return checkPointer(ev)
	})
	if err != nil {
		return err
	}

	taken := 0
	for _, a := range acks {
		answer := "took it"
		if a.OK {
			taken++
		} else {
			answer = "did not take it: " + a.Message
		}
		fmt.Fprintf(s.Out, "%s  %s\n", display.Printable(a.Relay), display.Printable(answer))
	}

	if taken == 0 {
		return advice.Hint(errors.New("no relay took the event"), "lightwork doctor looks at the relays; the same command publishes it again")
	}
	fmt.Fprintf(s.Err, "lightwork: kind %d, event %s\n", ev.Kind, ev.ID)
	return nil
}

// pointerTo is the event that names a receipt.
func pointerTo(v receiptView) (nostr.Event, error) {
	p, err := receipts.PointerTo(v.doc)
	if err != nil {
		return nostr.Event{}, err
	}
	ev, err := p.Event(int64(nostr.Now()))
	if err != nil {
		return nostr.Event{}, err
	}
	tags := nostr.Tags{}
	for _, tag := range ev.Tags {
		tags = append(tags, tag)
	}
	return nostr.Event{Kind: ev.Kind, CreatedAt: nostr.Timestamp(ev.CreatedAt), Content: ev.Content, Tags: tags}, nil
}

// checkPointer reads a signed pointer as a stranger would.
func checkPointer(ev nostr.Event) error {
	doc, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	read, err := receipts.ParseEvent(doc, receipts.MaxEventBytes)
	if err != nil {
		return err
	}
	_, err = receipts.ParsePointerEvent(read)
	return err
}

func retraction(v receiptView, key string) nostr.Event {
	return nostr.Event{
		Kind: kinds.Deletion, CreatedAt: nostr.Now(), Content: "the pointer is taken back",
		Tags: nostr.Tags{
			{"a", fmt.Sprintf("%d:%s:%s", kinds.Pointer, key, receipts.PointerName(hashing.Bytes(v.doc)))},
			{"k", strconv.Itoa(kinds.Pointer)},
			domain.Deletion.Tag(),
		},
	}
}

// isHidden reports whether a side's job was encrypted.
func isHidden(ctx context.Context, s *app.Streams, g *app.Globals, named config.Side, requestID string) (hidden bool, err error) {
	cfg, err := app.Open(s, g)
	if err != nil {
		return true, err
	}
	if named.Of(cfg.Config) == "provider" {
		err = jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
			job, err := store.Job(ctx, requestID)
			hidden = isEncrypted(job.Request)
			return err
		})
		return hidden, err
	}

	err = purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		p, err := store.Purchase(ctx, requestID)
		hidden = p.Hidden != nil
		return err
	})
	return hidden, err
}

// isEncrypted reports whether a request event hides what it asks for.
func isEncrypted(request []byte) bool {
	ev, err := receipts.ParseEvent(request, 1<<20)
	if err != nil {
		return true // nothing is said of what cannot be read
	}
	for _, t := range ev.Tags {
		if len(t) > 0 && t[0] == "encrypted" {
			return true
		}
	}
	return false
}
