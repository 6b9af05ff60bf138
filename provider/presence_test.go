package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestPresence: who this is, that it is alive, and the answer to a ping; and
// that a person's own profile is left alone.
func TestPresence(t *testing.T) {
	w := markettest.New(t)
	me := []string{w.Seller.Key.PublicKey()}
	c := w.NewCustomer(t, nil)
	own := markettest.SignedEvent(t, w.Seller.Key, 0, `{"name":"a person"}`)
	markettest.Check(t, c.Market.Send(w.Ctx, own))
	stop := w.Serve(t, func(cfg *provider.Config) { cfg.Profile.Name = "a machine" })

	beat := w.Find(t, c.Market, nostr.Filter{Kinds: []int{11998}, Authors: me})
	if beat.Tags.GetD() != "lightwork" || beat.Tags.Find("expiration") == nil {
		t.Errorf("beat %v", beat.Tags)
	}
	list := w.Find(t, c.Market, nostr.Filter{Kinds: []int{10002}, Authors: me})
	if list.Tags.FindWithValue("r", w.Relays[0]) == nil {
		t.Errorf("relay list %v", list.Tags)
	}
	ping := markettest.SignedEvent(t, c.Key, 7007, "", nostr.Tag{"p", me[0]})
	markettest.Check(t, c.Market.Send(w.Ctx, ping))
	if pong := w.Find(t, c.Market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {ping.ID}}}); pong.Tags.Find("status")[1] != "pong" {
		t.Errorf("pong %v", pong.Tags)
	}
	if got := w.Find(t, c.Market, nostr.Filter{Kinds: []int{0}, Authors: me}); got.ID != own.ID {
		t.Errorf("the profile of the key's owner was replaced: %s", got.Content)
	}

	w.Find(t, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: me})
	stop()
	acks, err := provider.Retire(w.Ctx, w.Seller.Key, c.Market, "")
	if err != nil || len(acks) != 1 || !acks[0].OK {
		t.Fatalf("%+v, %v", acks, err)
	}
	for _, kind := range []int{31990, 11998} {
		if left, err := c.Market.Query(w.Ctx, nostr.Filter{Kinds: []int{kind}, Authors: me}); err != nil || len(left) != 0 {
			t.Errorf("kind %d after retiring: %v, %v", kind, left, err)
		}
	}
}

// TestNameIsTold: a provider with a name of NIP-05 has it in its profile and in its
// announcement, from which buyers know it.
func TestNameIsTold(t *testing.T) {
	const name = "bob@example.com"
	w := markettest.New(t)
	me := []string{w.Seller.Key.PublicKey()}
	c := w.NewCustomer(t, nil)
	w.Serve(t, func(cfg *provider.Config) { cfg.Profile.NIP05 = name })

	for _, kind := range []int{0, 31990} {
		var says struct {
			NIP05 string `json:"nip05"`
		}
		ev := w.Find(t, c.Market, nostr.Filter{Kinds: []int{kind}, Authors: me})
		if err := json.Unmarshal([]byte(ev.Content), &says); err != nil || says.NIP05 != name {
			t.Errorf("kind %d: %s, %v", kind, ev.Content, err)
		}
	}
	found, err := c.Client.Discover(w.Ctx, string(schemas.SandboxRun), me[0])
	if err != nil || len(found) != 1 || found[0].NIP05 != name {
		t.Errorf("buyers see %+v, %v", found, err)
	}
}

// TestFurtherKinds: a configured kind is taken where it names its schema, and
// answered in its own; what is open to all and not ours is left to others.
func TestFurtherKinds(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) { cfg.Kinds.Also = []int{5102} })
	c := w.NewCustomer(t, nil)
	typed := nostr.Tags{{"param", "job_type", "oa.sandbox_run.v1"}, {"i", string(markettest.SandboxInput("")), "text"}, {"param", "payment_mode", "free"}}
	ours := markettest.SignedEvent(t, c.Key, 5102, "", typed...)
	markettest.Check(t, c.Market.Send(w.Ctx, ours))
	w.Await(t, ours.ID, provider.StateSucceeded)
	if got := w.Find(t, c.Market, nostr.Filter{Tags: nostr.TagMap{"e": {ours.ID}}, Kinds: []int{6102}}); got.PubKey != w.Seller.Key.PublicKey() {
		t.Errorf("result %v", got.Tags)
	}
	open := markettest.SignedEvent(t, c.Key, 5102, "", nostr.Tag{"i", "a picture of a cat", "text"})
	named := markettest.SignedEvent(t, c.Key, 5102, "", nostr.Tag{"i", "a picture of a cat", "text"}, nostr.Tag{"p", w.Seller.Key.PublicKey()})
	for _, ev := range []nostr.Event{open, named} {
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		w.Await(t, ev.ID, provider.StateRefused)
	}
	w.Find(t, c.Market, nostr.Filter{Tags: nostr.TagMap{"e": {named.ID}}})
	if got, err := c.Market.Query(w.Ctx, nostr.Filter{Tags: nostr.TagMap{"e": {open.ID}}}); err != nil || len(got) > 0 {
		t.Errorf("answered what was open to all: %v, %v", got, err)
	}
	unheard := markettest.SignedEvent(t, c.Key, 5103, "", typed...)
	markettest.Check(t, c.Market.Send(w.Ctx, unheard))
	if _, err := w.Store.Job(w.Ctx, unheard.ID); err == nil {
		t.Error("a kind that is not configured was taken")
	}
}

// noNode is a wallet that cannot say who it is.
type noNode struct{ provider.Wallet }

func (noNode) Node(context.Context) (payments.Node, error) {
	return payments.Node{}, errors.New("the wallet is down")
}

// TestGoodbye: a provider that stops, or cannot start, is at once known to be away,
// and is back as soon as it is started again.
func TestGoodbye(t *testing.T) {
	w := markettest.New(t)
	me := []string{w.Seller.Key.PublicKey()}
	c := w.NewCustomer(t, nil)
	usual := buyer.Order{SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.MaxMsats}
	away := func(when string) {
		t.Helper()
		list, err := c.Client.Candidates(w.Ctx, usual)
		if err != nil || len(list) != 1 || !errors.Is(list[0].Refusal, buyer.ErrPaused) {
			t.Errorf("%s: %d candidates, %v", when, len(list), err)
		}
		if beats, err := c.Market.Query(w.Ctx, nostr.Filter{Kinds: []int{11998}, Authors: me}); err != nil || len(beats) != 0 {
			t.Errorf("%s: beats %v, %v", when, beats, err)
		}
	}
	here := func() {
		t.Helper()
		w.Hear(t, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: me}, func(ev nostr.Event) bool {
			return !strings.Contains(ev.Content, `"paused":true`)
		})
		w.Find(t, c.Market, nostr.Filter{Kinds: []int{11998}, Authors: me})
	}
	stop := w.Serve(t, nil)
	here()
	stop()
	away("stopped")
	stop = w.Serve(t, nil)
	here()
	stop()

	// The beat of a life that was killed, of the second after the last goodbye.
	left := nostr.Event{Kind: 11998, CreatedAt: nostr.Now() + 1, Tags: nostr.Tags{{"d", "lightwork"}}}
	markettest.Check(t, w.Seller.Key.Sign(w.Ctx, &left))
	markettest.Check(t, c.Market.Send(w.Ctx, left))
	m := w.Connect(t, w.Seller.Key)
	cfg := w.Config(m)
	cfg.Wallet = noNode{cfg.Wallet}
	p, err := provider.New(cfg)
	markettest.Check(t, err)
	if err := p.Serve(w.Ctx); err == nil {
		t.Fatal("it began without its wallet")
	}
	away("not started")
}
