package provider_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// beside has a result's commit wait for one of its uploads, and the other uploads
// for the commit: neither may wait for the other's end.
type beside struct {
	uploaded  chan struct{} // closed by the first upload of a result
	committed chan struct{}

	mu      sync.Mutex
	running int      // uploads under way
	early   []string // what came before its turn
}

// policies are uploaded once, at some time: not what is looked at here.
func isPolicy(data []byte) bool {
	_, err := receipts.ParsePolicy(data)
	return err == nil
}

func (b besideMarket) Upload(ctx context.Context, data []byte, mime string) error {
	if isPolicy(data) {
		return b.Market.Upload(ctx, data, mime)
	}
	b.count(1)
	defer b.count(-1)
	first := false
	b.mu.Lock()
	select {
	case <-b.uploaded:
	default:
		first = true
		close(b.uploaded)
	}
	b.mu.Unlock()
	if !first {
		select {
		case <-b.committed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.Market.Upload(ctx, data, mime)
}

func (b *beside) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += n
}

// besideStore and besideMarket are its two sides, as the provider has them.
type besideStore struct {
	provider.Store
	*beside
}

type besideMarket struct {
	provider.Market
	*beside
}

func (b besideStore) Finish(ctx context.Context, id string, run int, r provider.Result, contents [][]byte, out ...provider.OutEvent) error {
	select {
	case <-b.uploaded:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer close(b.committed)
	return b.Store.Finish(ctx, id, run, r, contents, out...)
}

func (b besideMarket) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	if ev.Kind == 6050 {
		b.mu.Lock()
		select {
		case <-b.committed:
		default:
			b.early = append(b.early, "the commit")
		}
		if b.running > 0 {
			b.early = append(b.early, fmt.Sprint(b.running, " uploads"))
		}
		b.mu.Unlock()
	}
	return b.Market.Publish(ctx, ev)
}

// TestUploadsBesideTheCommit: small blobs are on their way while the result is made
// durable, and its event waits for both.
func TestUploadsBesideTheCommit(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeFree, receipts.ModePostpay} { // in the clear, and in boxes
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			b := &beside{uploaded: make(chan struct{}), committed: make(chan struct{})}
			w.Serve(t, func(cfg *provider.Config) {
				cfg.Store, cfg.Market = besideStore{cfg.Store, b}, besideMarket{cfg.Market, b}
			})
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), mode)
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.early) > 0 {
				t.Errorf("the result was published before %v", b.early)
			}
		})
	}
}

// keeps counts what comes to the blob server.
type keeps struct {
	provider.Market
	mu  sync.Mutex
	got map[hashing.Digest]bool
}

func (k *keeps) Upload(ctx context.Context, data []byte, mime string) error {
	k.mu.Lock()
	k.got[hashing.Bytes(data)] = true
	k.mu.Unlock()
	return k.Market.Upload(ctx, data, mime)
}

// TestUnsignedResultIsNotUploaded: what a signer elsewhere may yet refuse stays here.
func TestUnsignedResultIsNotUploaded(t *testing.T) {
	w := markettest.New(t)
	s, change := signsElsewhere(w, only(6050, never))
	k := &keeps{got: map[hashing.Digest]bool{}}
	stop := w.Serve(t, func(cfg *provider.Config) {
		change(cfg)
		k.Market = cfg.Market
		cfg.Market = k
	})
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeFree, markettest.SandboxInput(""))
	w.Follow(t, c, p.RequestID, nil)
	s.until(w.Ctx, t, 6050, 1)
	job := w.Await(t, p.RequestID, provider.StateDelivering)
	stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.got[job.Result.Replay] || k.got[job.Result.OutputHash] {
		t.Error("the blobs of a result that nobody signed are on a server")
	}
}
