package provider_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// elsewhere is a key that is asked over a wire: it does what the test says.
type elsewhere struct {
	provider.Signer

	mu    sync.Mutex
	asked map[int]int // how often, by kind
	heard chan struct{}
	do    func(ctx context.Context, ev *nostr.Event) error // nil signs
}

func (e *elsewhere) Sign(ctx context.Context, ev *nostr.Event) error {
	e.mu.Lock()
	e.asked[ev.Kind]++
	do := e.do
	close(e.heard)
	e.heard = make(chan struct{})
	e.mu.Unlock()
	if do != nil {
		if err := do(ctx, ev); err != nil {
			return err
		}
	}
	return e.Signer.Sign(ctx, ev)
}

func (e *elsewhere) set(do func(context.Context, *nostr.Event) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.do = do
}

// until waits until the signer was asked for n events of the kind.
func (e *elsewhere) until(ctx context.Context, t *testing.T, kind, n int) {
	t.Helper()
	for {
		e.mu.Lock()
		have, heard := e.asked[kind], e.heard
		e.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-heard:
		case <-ctx.Done():
			t.Fatalf("the signer was asked %d times for kind %d, want %d", have, kind, n)
		}
	}
}

func signsElsewhere(w *markettest.World, do func(context.Context, *nostr.Event) error) (*elsewhere, func(*provider.Config)) {
	e := &elsewhere{Signer: w.Seller.Key, asked: map[int]int{}, heard: make(chan struct{}), do: do}
	return e, func(cfg *provider.Config) { cfg.Signer, cfg.SignLater = e, true }
}

// only does what is wanted to events of one kind.
func only(kind int, do func(context.Context, *nostr.Event) error) func(context.Context, *nostr.Event) error {
	return func(ctx context.Context, ev *nostr.Event) error {
		if ev.Kind == kind {
			return do(ctx, ev)
		}
		return nil
	}
}

func never(ctx context.Context, _ *nostr.Event) error { <-ctx.Done(); return ctx.Err() }

// TestRemoteSigner sells in every mode with the key elsewhere.
func TestRemoteSigner(t *testing.T) {
	for _, mode := range markettest.AllModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			_, change := signsElsewhere(w, nil)
			w.Serve(t, change)
			c := w.NewCustomer(t, nil)
			w.Sold(t, c, w.Follow(t, c, w.Place(t, c, mode, markettest.SandboxInput("")).RequestID, nil), mode)
		})
	}
}

// TestSignerAway: while the signer is away jobs wait, also over a restart, and
// none is lost; nothing is run or paid twice.
func TestSignerAway(t *testing.T) {
	t.Parallel()
	away := func(context.Context, *nostr.Event) error { return errors.New("away") }
	for _, kind := range []int{7000, 6050, 7002} {
		t.Run(strconv.Itoa(kind), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			s, change := signsElsewhere(w, only(kind, away))
			stop := w.Serve(t, change)
			c := w.NewCustomer(t, nil)
			f := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
			s.until(w.Ctx, t, kind, 2)
			stop()
			s.set(nil)
			w.Serve(t, change)
			w.Sold(t, c, f, receipts.ModeHold)
			if w.Runner.Count() != 1 {
				t.Errorf("%d runs", w.Runner.Count())
			}
		})
	}
}

// TestSignerHangsOnOneReceipt: a receipt that waits for its signature holds up
// no other job, and the money of its own job is settled.
func TestSignerHangsOnOneReceipt(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	s, change := signsElsewhere(w, only(7002, never))
	w.Serve(t, change)
	for range 2 {
		c := w.NewCustomer(t, nil)
		p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
		w.Follow(t, c, p.RequestID, nil)
		w.Await(t, p.RequestID, provider.StateSucceeded)
	}
	s.until(w.Ctx, t, 7002, 2)
	if got := w.Balance(t, w.Seller) - markettest.FaucetMsats; got != 2*markettest.RateMsats {
		t.Errorf("the provider got %d msats, want %d", got, 2*markettest.RateMsats)
	}
}

// TestSignerRefusesResult: the job fails and the money goes back, whether the
// signer says no or signs something else.
func TestSignerRefusesResult(t *testing.T) {
	for name, do := range map[string]func(context.Context, *nostr.Event) error{
		"no":            func(context.Context, *nostr.Event) error { return provider.ErrSignerRefuses },
		"another event": func(_ context.Context, ev *nostr.Event) error { ev.CreatedAt++; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			_, change := signsElsewhere(w, only(6050, do))
			w.Serve(t, change)
			c := w.NewCustomer(t, nil)
			f := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
			p := f.Failed(t, heard(provider.CodeInternal))
			w.Moved(t, c.Party, 0, 0)
			acks, err := w.Store.Acks(w.Ctx, p.RequestID)
			markettest.Check(t, err)
			told := 0
			for _, a := range acks {
				if a.Relay == "signer" && !a.OK {
					told++
				}
			}
			if told == 0 {
				t.Error("the signer's refusal is not among the answers to the job's events")
			}
		})
	}
}
