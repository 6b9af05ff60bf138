package buyer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// freeOffer is a valid offer of a new key that announces nothing.
func freeOffer(t *testing.T, request nostr.Event, job hashing.Digest) nostr.Event {
	t.Helper()
	key := markettest.NewKey(t)
	doc, err := receipts.Quote{
		Version: receipts.Version, RequestID: request.ID, JobHash: job, SchemaID: string(schemas.SandboxRun),
		Buyer: request.PubKey, Provider: key.PublicKey(), Purpose: receipts.PurposeResult,
		ExpiresAt: receipts.Timestamp(time.Now().Add(10 * time.Minute)), Mode: receipts.ModeFree, Delivery: receipts.DeliveryPlain,
		Cancellation: "none", PolicyBundleID: hashing.Bytes([]byte("policy")), Nonce: strings.Repeat("0", 32),
	}.Canonical()
	markettest.Check(t, err)
	return markettest.SignedEvent(t, key, 7000, string(doc), nostr.Tag{"status", "processing"}, nostr.Tag{"e", request.ID}, nostr.Tag{"p", request.PubKey}, domain.Quote.Tag())
}

// TestOpenIsNotCrowdedOut: more keys than are compared, all with a valid offer and
// all quicker, do not hide the one that is better.
func TestOpenIsNotCrowdedOut(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	crowded := make(chan struct{})
	late := w.NewRival(t, "late")
	w.Open(t, late, func(ctx context.Context, ev *nostr.Event) error {
		if ev.Kind != 7000 {
			return nil
		}
		select {
		case <-crowded:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.OfferTimeout = markettest.Slow
	})
	_, err := w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: []string{late.Key.PublicKey()}}, func(nostr.Event) bool { return true })
	markettest.Check(t, err)

	input, err := mustSchema(t, schemas.SandboxRun).ParseRequest(markettest.SandboxInput(""))
	markettest.Check(t, err)
	var placed, offers errgroup.Group
	var p buyer.Purchase
	placed.Go(func() (err error) {
		p, err = c.Client.PlaceOpen(w.Ctx, openOrder(receipts.ModeFree), nil)
		return err
	})
	m := w.Connect(t, c.Key)
	request, err := w.See(w.Ctx, m, nostr.Filter{Kinds: []int{5050}}, func(nostr.Event) bool { return true })
	markettest.Check(t, err)
	for range 150 {
		ev := freeOffer(t, request, input.JobHash)
		offers.Go(func() error { return m.Send(w.Ctx, ev) })
	}
	markettest.Check(t, offers.Wait())
	close(crowded)
	markettest.Check(t, placed.Wait())
	if p.Provider != late.Key.PublicKey() {
		t.Errorf("the offer of a key that announces nothing was taken")
	}
}

func mustSchema(t *testing.T, id schemas.ID) *schemas.Schema {
	t.Helper()
	s, ok := schemas.Lookup(string(id))
	if !ok {
		t.Fatal(id)
	}
	return s
}
