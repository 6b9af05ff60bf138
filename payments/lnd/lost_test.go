package lnd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

// What becomes of a job whose lnd settles its invoice by itself, and then loses the
// HTLC (lnd#7463): the real provider on the fake lnd. internal/crashmatrix plays it
// on a real one, where nobody can say when it happens.

// How the HTLC of a sale stands.
const (
	htlcOpen int32 = iota
	htlcSettled
	htlcFailed
)

// sale is one job for sale, asked for by a buyer without a wallet.
type sale struct {
	ctx       context.Context
	fake      *fakeLND
	htlc      atomic.Int32
	runs      atomic.Int32
	store     *sales.Store
	seller    string // its key
	requestID string
}

// sell begins a sale. change may alter the fake before anything is asked of it, and
// the limits of the provider.
func sell(t *testing.T, mode receipts.Mode, change func(*fakeLND, *provider.Limits)) *sale {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	s := &sale{ctx: ctx}
	s.fake = &fakeLND{resolution: s.resolution}
	limits := provider.Limits{LookupEvery: 10 * time.Millisecond}
	if change != nil {
		change(s.fake, &limits)
	}
	url := startRelay(t)
	k, err := store.Open(ctx, t.TempDir(), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	s.store = k.Sales("paid-job")
	seller, buyer := newKey(t), newKey(t)
	s.seller = seller.PublicKey()
	image := hashing.Bytes([]byte("toolchain"))
	p, err := provider.New(provider.Config{
		Signer: seller, Store: s.store, Wallet: s.fake.start(t, Config{}), Market: connect(t, url, seller), Runner: (*worker)(s),
		RootSecret: bytes.Repeat([]byte{7}, 32), Policy: receipts.Policy{Version: 1, Producer: "test"}, Limits: limits,
		Offers: []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{mode}, PerMinuteMsats: 21_000}},
		Images: provider.Images{HostDigest: image.String(), Registered: func(string) bool { return false }},
	})
	must(t, err)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	g.Go(func() error { return p.Serve(serving) })
	t.Cleanup(func() { stop(); must(t, g.Wait()) })

	ask := nostr.Event{Kind: 5050, CreatedAt: nostr.Now(), Tags: nostr.Tags{
		{"param", "schema", string(schemas.SandboxRun)},
		{"param", "payment_mode", string(mode)},
		{"p", seller.PublicKey()},
		{"i", `{"sandbox":{"provider":"host","image_digest":"` + image.String() + `","resources":{"timeout_secs":30}},"commands":[{"cmd":"count"}]}`, "text"},
	}}
	must(t, buyer.Sign(ctx, &ask))
	must(t, connect(t, url, buyer).Send(ctx, ask))
	s.requestID = ask.ID
	return s
}

// resolution answers LookupHtlcResolution.
func (s *sale) resolution(uint64) (*lnrpc.LookupHtlcResolutionResponse, error) {
	switch s.htlc.Load() {
	case htlcSettled:
		return &lnrpc.LookupHtlcResolutionResponse{Settled: true}, nil
	case htlcFailed:
		return &lnrpc.LookupHtlcResolutionResponse{}, nil
	}
	return nil, status.Error(codes.NotFound, "htlc unknown")
}

// pay makes the invoices SETTLED, with an HTLC of which nothing is known yet. The
// caller has fake.mu.
func (f *fakeLND) pay() error {
	for hash, inv := range f.invoices {
		f.invoices[hash] = &lnrpc.Invoice{
			RHash: inv.RHash, RPreimage: inv.RPreimage, PaymentRequest: inv.PaymentRequest, ValueMsat: inv.ValueMsat, DescriptionHash: inv.DescriptionHash, Expiry: inv.Expiry,
			State: lnrpc.Invoice_SETTLED, SettleDate: time.Now().Unix(), AmtPaidMsat: inv.ValueMsat,
			Htlcs: []*lnrpc.InvoiceHTLC{{State: lnrpc.InvoiceHTLCState_SETTLED, AmtMsat: uint64(inv.ValueMsat)}},
		}
	}
	return nil
}

// await returns the job once it is as wanted.
func (s *sale) await(t *testing.T, what string, done func(provider.Job) bool) provider.Job {
	t.Helper()
	for {
		job, err := s.store.Job(s.ctx, s.requestID)
		if err == nil && done(job) {
			return job
		}
		if err != nil && !errors.Is(err, provider.ErrNotFound) || job.State.Terminal() {
			t.Fatalf("%s: job %s (%s), %v", what, job.State, job.Reason, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// asked waits until lnd was asked in vain for the end of the HTLC, again and again,
// and the job is still where it was.
func (s *sale) asked(t *testing.T, at provider.State) {
	t.Helper()
	until := s.fake.count(rpcHTLCResolution) + 5
	s.await(t, "it waits", func(j provider.Job) bool {
		if j.State != at || j.Receipt != nil {
			t.Fatalf("job %s (%s) after %d runs, receipt %q", j.State, j.Reason, s.runs.Load(), j.ReceiptID)
		}
		return s.fake.count(rpcHTLCResolution) >= until
	})
}

// settled brings a job to where lnd calls its invoice settled, and the HTLC is open.
func settled(t *testing.T, mode receipts.Mode) *sale {
	t.Helper()
	s := sell(t, mode, nil)
	at, runs := provider.StateQuoted, int32(0)
	if mode == receipts.ModePostpay {
		at, runs = provider.StateDelivering, 1
	}
	s.await(t, "the invoice is out", func(j provider.Job) bool { return j.State == at && j.BOLT11 != "" })
	s.fake.mu.Lock()
	must(t, s.fake.pay())
	s.fake.mu.Unlock()
	s.asked(t, at)
	if s.runs.Load() != runs {
		t.Errorf("%d runs", s.runs.Load())
	}
	return s
}

// TestSettledAndLost: of an HTLC that went back nothing is delivered that was not
// before, and nothing receipted.
func TestSettledAndLost(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			s := settled(t, mode)
			runs := s.runs.Load()
			s.htlc.Store(htlcFailed)
			job := s.await(t, "it is lost", func(j provider.Job) bool { return j.State == provider.StateFailed })
			const words = "payment_lost: the wallet had called the payment settled, and then 21000 msats of it went back to the payer"
			if job.Reason.Code != provider.CodePaymentLost || !strings.HasPrefix(job.Reason.String(), words) || job.Receipt != nil || s.runs.Load() != runs {
				t.Errorf("job %s (%s) after %d runs, receipt %q", job.State, job.Reason, s.runs.Load(), job.ReceiptID)
			}
			if n := s.fake.count(rpcCancelInvoice); n != 0 {
				t.Errorf("cancelled %d times", n)
			}
		})
	}
}

// TestSettledAndPaid: of one that is resolved for good the job goes on.
func TestSettledAndPaid(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			s := settled(t, mode)
			s.htlc.Store(htlcSettled)
			job := s.await(t, "it is paid", func(j provider.Job) bool { return j.State == provider.StateSucceeded })
			if job.ReceiptID == "" || s.runs.Load() != 1 {
				t.Errorf("%d runs, receipt %q", s.runs.Load(), job.ReceiptID)
			}
		})
	}
}

// TestPaidAfterTheQuote: where it takes longer than the quote lasts, as with a channel
// that is being closed, the job waits all the same: nothing could be cancelled.
func TestPaidAfterTheQuote(t *testing.T) {
	s := sell(t, receipts.ModePrepay, func(f *fakeLND, l *provider.Limits) {
		f.afterAdd, l.QuoteTTL = f.pay, time.Second
	})
	job := s.await(t, "the invoice is out", func(j provider.Job) bool { return j.BOLT11 != "" })
	for time.Now().Before(job.ExpiresAt) {
		time.Sleep(time.Millisecond)
	}
	s.asked(t, provider.StateQuoted)
	if n := s.fake.count(rpcCancelInvoice); n != 0 {
		t.Errorf("cancelled %d times", n)
	}
	s.htlc.Store(htlcSettled)
	s.await(t, "it is believed", func(j provider.Job) bool { return j.State != provider.StateQuoted })
}

// worker is an agent that always succeeds.
type worker sale

func (w *worker) Tool(string) string { return "worker/count" }

func (w *worker) Run(context.Context, provider.Run) (provider.Outcome, error) {
	w.runs.Add(1)
	doc, err := json.Marshal(schemas.SandboxRunResult{
		EnvInfo:   schemas.SandboxEnv{ImageDigest: hashing.Bytes([]byte("toolchain"))},
		Runs:      []schemas.SandboxRunInfo{{Cmd: "count", StdoutSHA256: hashing.Bytes(nil), StderrSHA256: hashing.Bytes(nil)}},
		Artifacts: []schemas.SandboxArtifact{}, Status: schemas.StatusSuccess,
		Provenance: schemas.Provenance{ModelID: "worker", ProviderPubkey: w.seller},
	})
	return provider.Outcome{Output: doc}, err
}

func startRelay(t *testing.T) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	rel, err := server.New(ctx, server.Config{Dir: filepath.Join(t.TempDir(), "relay"), Uploaders: []string{server.Anyone}})
	must(t, err)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(ctx, on) })
	t.Cleanup(func() { stop(); must(t, g.Wait()) })
	return "ws://" + on.Addr().String()
}

func connect(t *testing.T, url string, key *relay.Key) *exchange.Market {
	t.Helper()
	m, err := exchange.New(exchange.Config{Relays: []string{url}, Blobs: []string{"http" + strings.TrimPrefix(url, "ws")}, Signer: key, AllowLoopback: true})
	must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var g errgroup.Group
	g.Go(func() error {
		if err := m.Serve(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	t.Cleanup(func() { stop(); must(t, g.Wait()) })
	return m
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	must(t, err)
	return key
}
