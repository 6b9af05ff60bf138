package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// wantRefusal sends the request and wants a 7000 with this code and a next step.
func (s *shop) wantRefusal(ev nostr.Event, code provider.Code) {
	s.t.Helper()
	status := s.answer(ev).Tags.Find("status")
	if status[1] != "error" || len(status) < 3 {
		s.t.Errorf("answer %v, want %s", status, code)
		return
	}
	if got, detail, _ := strings.Cut(status[2], ": "); got != string(code) || detail == "" {
		s.t.Errorf("refused for %q, want %s", status[2], code)
	}
}

func (s *shop) wantQuote(ev nostr.Event) {
	s.t.Helper()
	if status := s.answer(ev).Tags.Find("status"); status[1] == "error" {
		s.t.Errorf("answer %v, want a quote", status)
	}
}

// TestWhoMayBuy: a list of who may makes all others strangers, and who is denied
// is denied in any case.
func TestWhoMayBuy(t *testing.T) {
	friend, enemy := markettest.NewKey(t), markettest.NewKey(t)
	s := openShop(t, func(cfg *provider.Config) { cfg.Access.Deny = []string{enemy.PublicKey()} })
	s.wantQuote(s.request(nil))
	s.wantRefusal(s.requestOf(enemy, nil), provider.CodeNotAllowed)

	s = openShop(t, func(cfg *provider.Config) {
		cfg.Access = provider.Access{Allow: []string{friend.PublicKey(), enemy.PublicKey()}, Deny: []string{enemy.PublicKey()}}
	})
	s.wantQuote(s.requestOf(friend, nil))
	s.wantRefusal(s.request(nil), provider.CodeNotAllowed)
	s.wantRefusal(s.requestOf(enemy, nil), provider.CodeNotAllowed)
}

// TestFreeJobsCostWork: without work that was committed to, nothing is free; a
// job that is paid for needs none.
func TestFreeJobsCostWork(t *testing.T) {
	const bits = 8
	s := openShop(t, func(cfg *provider.Config) { cfg.Limits.FreePoW = bits })
	free := func(more func(*nostr.Event)) func(*nostr.Event) {
		return func(ev *nostr.Event) {
			ev.Tags = append(ev.Tags, nostr.Tag{"param", "payment_mode", "free"})
			if more != nil {
				more(ev)
			}
		}
	}
	work := func(key *relay.Key, target, claim int) func(*nostr.Event) {
		return free(func(ev *nostr.Event) {
			ev.PubKey = key.PublicKey()
			nonce, err := nip13.DoWork(t.Context(), *ev, target)
			markettest.Check(t, err)
			if claim != target {
				nonce[2] = strconv.Itoa(claim)
			}
			ev.Tags = append(ev.Tags, nonce)
		})
	}
	s.wantQuote(s.request(nil))
	s.wantRefusal(s.request(free(nil)), provider.CodeProofOfWork)
	lucky := markettest.NewKey(t) // difficulty that nobody committed to
	s.wantRefusal(s.requestOf(lucky, work(lucky, bits, 1)), provider.CodeProofOfWork)
	liar := markettest.NewKey(t)
	s.wantRefusal(s.requestOf(liar, work(liar, 1, 64)), provider.CodeProofOfWork)
	worker := markettest.NewKey(t)
	s.wantQuote(s.requestOf(worker, work(worker, bits, bits)))
}

// TestPauseAndDrain: no new job is taken while paused, and it is announced; open
// jobs go on; a provider that drains ends with the last of them.
func TestPauseAndDrain(t *testing.T) {
	w := markettest.New(t)
	running, finish := make(chan struct{}), make(chan struct{})
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		close(running)
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return w.Runner.Good(nil)
	}
	var admission atomic.Value
	admission.Store(provider.AdmissionOpen)
	m, hangUp := w.Dial(t, w.Seller.Key)
	defer hangUp()
	p, err := provider.New(provider.Config{
		Signer: w.Seller.Key, Store: w.Store, Wallet: w.Seller.Wallet, Market: m, Runner: w.Runner,
		RootSecret: bytes.Repeat([]byte{7}, 32), Policy: markettest.Policy(),
		Offers:    []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: markettest.AllModes, PerMinuteMsats: markettest.RateMsats}},
		Images:    provider.Images{HostDigest: markettest.Toolchain().String(), Registered: func(string) bool { return false }},
		Admission: func() provider.Admission { return admission.Load().(provider.Admission) },
	})
	markettest.Check(t, err)
	served := make(chan error, 1)
	go func() { served <- p.Serve(w.Ctx) }()

	c := w.NewCustomer(t, nil)
	f := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
	<-running
	admission.Store(provider.AdmissionPaused)
	late := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"t", "late"})
	markettest.Check(t, c.Market.Send(w.Ctx, late))
	refused(t, w, late.ID)
	announcedAs(t, w, c, true, 0)
	select {
	case err := <-served:
		t.Fatalf("a paused provider ended: %v", err)
	default:
	}
	admission.Store(provider.AdmissionOpen)
	announcedAs(t, w, c, false, 2)
	admission.Store(provider.AdmissionDraining)
	close(finish)
	w.Sold(t, c, f, receipts.ModeHold)
	if err := <-served; !errors.Is(err, provider.ErrDrained) {
		t.Errorf("drained: %v", err)
	}
	pending, err := w.Store.PendingEvents(w.Ctx, markettest.Patience, 100)
	markettest.Check(t, err)
	for _, e := range pending {
		if e.RequestID != "" && len(e.Confirmed) < e.Required {
			t.Errorf("not published: %s", e.Event)
		}
	}
}

// announcedAs waits until the latest announcement says so.
func announcedAs(t *testing.T, w *markettest.World, c *markettest.Customer, paused bool, jobs int) {
	t.Helper()
	ctx, stop := context.WithCancel(w.Ctx)
	defer stop()
	err := c.Market.Listen(ctx, nostr.Filters{{Kinds: []int{31990}, Authors: []string{w.Seller.Key.PublicKey()}}}, func() {}, func(ev nostr.Event) {
		var a provider.Announcement
		if json.Unmarshal([]byte(ev.Content), &a) == nil && a.Lightwork.Paused == paused && a.Capacity.MaxConcurrentJobs == jobs {
			stop()
		}
	})
	if w.Ctx.Err() != nil {
		t.Errorf("it was not announced: %v", err)
	}
}

// unused is a cipher that must not be asked.
type unused struct {
	provider.Cipher
	t *testing.T
}

func (u unused) NIP44Decrypt(context.Context, string, string) (string, error) {
	u.t.Error("what a stranger has hidden was opened")
	return "", errors.New("no")
}

func (u unused) NIP44Encrypt(_ context.Context, _, text string) (string, error) { return text, nil }

// TestWhoMayNotBuyIsNotRead: a list of who may buy, and a pause, spare the
// provider all work for others.
func TestWhoMayNotBuyIsNotRead(t *testing.T) {
	enemy := markettest.NewKey(t)
	s := openShop(t, func(cfg *provider.Config) { cfg.Access.Deny, cfg.Cipher = []string{enemy.PublicKey()}, unused{t: t} })
	ev := s.requestOf(enemy, func(ev *nostr.Event) {
		ev.Content, ev.Tags = "AAAA", nostr.Tags{{"p", s.key.PublicKey()}, {"encrypted"}}
	})
	s.answer(ev)
}
