package lnd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	btcecdsa "github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/lnrpc/walletrpc"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeLND is a node that does what a test tells it. It has the same words and
// codes for its errors as lnd. Invoices and payments are what the tests put in;
// a hook replaces the answer to an RPC. Each RPC is counted under its name.
type fakeLND struct {
	lnrpc.UnimplementedLightningServer
	invoicesrpc.UnimplementedInvoicesServer

	mu       sync.Mutex
	calls    []string
	info     *lnrpc.GetInfoResponse
	invoices map[payments.Hash]*lnrpc.Invoice
	updates  map[payments.Hash][]*lnrpc.Payment // what a track or send stream tells
	channels []*lnrpc.Channel
	sent     []*routerrpc.SendPaymentRequest

	// refuse is asked before every RPC; an error is the answer.
	refuse func(rpc string) error
	// resolution answers LookupHtlcResolution.
	resolution func(htlc uint64) (*lnrpc.LookupHtlcResolutionResponse, error)
	// afterAdd runs when an invoice is made, before the reply: an error loses it.
	afterAdd func() error
	// afterChange is the same for a settlement or a cancellation.
	afterChange func() error
	// send replaces SendPaymentV2.
	send func(*routerrpc.SendPaymentRequest, routerrpc.Router_SendPaymentV2Server) error
	// all and single replace the invoice streams.
	all    func(*lnrpc.InvoiceSubscription, lnrpc.Lightning_SubscribeInvoicesServer) error
	single func(payments.Hash, invoicesrpc.Invoices_SubscribeSingleInvoiceServer) error
}

// fakeRouter is the fake's router service: its methods' names would collide.
type fakeRouter struct {
	routerrpc.UnimplementedRouterServer
	fake *fakeLND
}

const macaroonHex = "0201036c6e64" // the head of a binary macaroon

var (
	nodeKey, _   = btcec.PrivKeyFromBytes([]byte("the key of the node under test.."))
	otherKey, _  = btcec.PrivKeyFromBytes([]byte("the key of some other node......"))
	nodePubKey   = hex.EncodeToString(nodeKey.PubKey().SerializeCompressed())
	description  = hashing.Bytes([]byte("a quote"))
	testPreimage = payments.Preimage{1, 2, 3}
	testHash     = testPreimage.Hash()
)

// start serves the fake on loopback TLS and opens a wallet on it.
func (f *fakeLND) start(t *testing.T, cfg Config) *Wallet {
	t.Helper()
	if f.info == nil {
		f.info = &lnrpc.GetInfoResponse{
			IdentityPubkey: nodePubKey, Alias: "fake", BlockHeight: 500,
			Chains: []*lnrpc.Chain{{Chain: "bitcoin", Network: "simnet"}},
		}
	}
	if f.invoices == nil {
		f.invoices = map[payments.Hash]*lnrpc.Invoice{}
	}
	if f.updates == nil {
		f.updates = map[payments.Hash][]*lnrpc.Payment{}
	}
	dir := t.TempDir()
	cfg.TLSCertFile = filepath.Join(dir, "tls.cert")
	cert := selfSigned(t, cfg.TLSCertFile)
	cfg.MacaroonFile = filepath.Join(dir, "test.macaroon")
	raw, _ := hex.DecodeString(macaroonHex)
	if err := os.WriteFile(cfg.MacaroonFile, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(&cert)),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := f.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := f.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handler(srv, stream)
		}),
	)
	lnrpc.RegisterLightningServer(server, f)
	invoicesrpc.RegisterInvoicesServer(server, f)
	routerrpc.RegisterRouterServer(server, fakeRouter{fake: f})
	walletrpc.RegisterWalletKitServer(server, walletrpc.UnimplementedWalletKitServer{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-served })

	cfg.Address = listener.Addr().String()
	w, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.retryMin, w.retryMax = time.Millisecond, 5*time.Millisecond
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// admit checks the macaroon as lnd does and lets the test refuse.
func (f *fakeLND) admit(ctx context.Context, rpc string) error {
	f.mu.Lock()
	f.calls = append(f.calls, rpc)
	refuse := f.refuse
	f.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("macaroon"); !slices.Equal(got, []string{macaroonHex}) {
		return status.Errorf(codes.Unknown, "expected 1 macaroon, got %d", len(got))
	}
	if refuse != nil {
		return refuse(rpc)
	}
	return nil
}

// count is how often the RPC was called.
func (f *fakeLND) count(rpc string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == rpc {
			n++
		}
	}
	return n
}

func (f *fakeLND) GetInfo(context.Context, *lnrpc.GetInfoRequest) (*lnrpc.GetInfoResponse, error) {
	return f.info, nil
}

func (f *fakeLND) ChannelBalance(context.Context, *lnrpc.ChannelBalanceRequest) (*lnrpc.ChannelBalanceResponse, error) {
	return &lnrpc.ChannelBalanceResponse{
		LocalBalance:           &lnrpc.Amount{Msat: 7_000_001},
		RemoteBalance:          &lnrpc.Amount{Msat: 33},
		UnsettledLocalBalance:  &lnrpc.Amount{Msat: 11}, // coming in
		UnsettledRemoteBalance: &lnrpc.Amount{Msat: 22}, // going out
	}, nil
}

func (f *fakeLND) ListChannels(context.Context, *lnrpc.ListChannelsRequest) (*lnrpc.ListChannelsResponse, error) {
	return &lnrpc.ListChannelsResponse{Channels: f.channels}, nil
}

func (f *fakeLND) add(inv *lnrpc.Invoice) (string, error) {
	hash := payments.Hash(inv.RHash)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.invoices[hash] != nil {
		return "", status.Error(codes.Unknown, "invoice with payment hash already exists")
	}
	inv.PaymentRequest = encodeInvoice(nil, nodeKey, hash, inv.ValueMsat, hashing.Digest(inv.DescriptionHash), time.Duration(inv.Expiry)*time.Second, payments.Simnet)
	f.invoices[hash] = inv
	if f.afterAdd != nil {
		if err := f.afterAdd(); err != nil {
			return "", err
		}
	}
	return inv.PaymentRequest, nil
}

func (f *fakeLND) AddInvoice(_ context.Context, inv *lnrpc.Invoice) (*lnrpc.AddInvoiceResponse, error) {
	hash := payments.Preimage(inv.RPreimage).Hash()
	inv.RHash = hash[:]
	request, err := f.add(inv)
	return &lnrpc.AddInvoiceResponse{RHash: hash[:], PaymentRequest: request}, err
}

func (f *fakeLND) AddHoldInvoice(_ context.Context, req *invoicesrpc.AddHoldInvoiceRequest) (*invoicesrpc.AddHoldInvoiceResp, error) {
	request, err := f.add(&lnrpc.Invoice{
		RHash: req.Hash, ValueMsat: req.ValueMsat, DescriptionHash: req.DescriptionHash, Expiry: req.Expiry,
	})
	return &invoicesrpc.AddHoldInvoiceResp{PaymentRequest: request}, err
}

func (f *fakeLND) LookupInvoice(_ context.Context, req *lnrpc.PaymentHash) (*lnrpc.Invoice, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if inv := f.invoices[payments.Hash(req.RHash)]; inv != nil {
		return inv, nil
	}
	return nil, status.Error(codes.NotFound, "unable to locate invoice")
}

func (f *fakeLND) LookupHtlcResolution(_ context.Context, req *lnrpc.LookupHtlcResolutionRequest) (*lnrpc.LookupHtlcResolutionResponse, error) {
	return f.resolution(req.HtlcIndex)
}

func (f *fakeLND) SettleInvoice(_ context.Context, req *invoicesrpc.SettleInvoiceMsg) (*invoicesrpc.SettleInvoiceResp, error) {
	return &invoicesrpc.SettleInvoiceResp{}, f.change(payments.Preimage(req.Preimage).Hash(), lnrpc.Invoice_SETTLED)
}

func (f *fakeLND) CancelInvoice(_ context.Context, req *invoicesrpc.CancelInvoiceMsg) (*invoicesrpc.CancelInvoiceResp, error) {
	return &invoicesrpc.CancelInvoiceResp{}, f.change(payments.Hash(req.PaymentHash), lnrpc.Invoice_CANCELED)
}

// change is lnd's state machine of an invoice, in its strictest reading: older
// versions refuse a repetition.
func (f *fakeLND) change(hash payments.Hash, to lnrpc.Invoice_InvoiceState) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	inv := f.invoices[hash]
	switch {
	case inv == nil:
		return status.Error(codes.Unknown, "unable to locate invoice")
	case inv.State == lnrpc.Invoice_SETTLED:
		return status.Error(codes.Unknown, "invoice already settled")
	case inv.State == lnrpc.Invoice_CANCELED:
		return status.Error(codes.Unknown, "invoice already canceled")
	case inv.State == lnrpc.Invoice_OPEN && to == lnrpc.Invoice_SETTLED:
		return status.Error(codes.Unknown, "invoice still open")
	}
	inv.State = to
	if f.afterChange != nil {
		return f.afterChange()
	}
	return nil
}

func (r fakeRouter) SendPaymentV2(req *routerrpc.SendPaymentRequest, stream routerrpc.Router_SendPaymentV2Server) error {
	f := r.fake
	f.mu.Lock()
	f.sent = append(f.sent, req)
	send := f.send
	f.mu.Unlock()
	return send(req, stream)
}

func (r fakeRouter) TrackPaymentV2(req *routerrpc.TrackPaymentRequest, stream routerrpc.Router_TrackPaymentV2Server) error {
	f := r.fake
	f.mu.Lock()
	updates := f.updates[payments.Hash(req.PaymentHash)]
	f.mu.Unlock()
	if updates == nil {
		return status.Error(codes.NotFound, "payment isn't initiated")
	}
	for _, update := range updates {
		if err := stream.Send(update); err != nil {
			return err
		}
	}
	return nil
}

// tell sets what streams tell of a payment from now on.
func (f *fakeLND) tell(hash payments.Hash, updates ...*lnrpc.Payment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updates[hash] = updates
}

func (f *fakeLND) ListInvoices(_ context.Context, req *lnrpc.ListInvoiceRequest) (*lnrpc.ListInvoiceResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &lnrpc.ListInvoiceResponse{}
	for _, inv := range f.invoices {
		reply.LastIndexOffset = max(reply.LastIndexOffset, inv.AddIndex)
		if !req.PendingOnly || inv.State == lnrpc.Invoice_OPEN || inv.State == lnrpc.Invoice_ACCEPTED {
			reply.Invoices = append(reply.Invoices, inv)
		}
	}
	return reply, nil
}

func (f *fakeLND) SubscribeInvoices(req *lnrpc.InvoiceSubscription, stream lnrpc.Lightning_SubscribeInvoicesServer) error {
	if f.all == nil {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return f.all(req, stream)
}

func (f *fakeLND) SubscribeSingleInvoice(req *invoicesrpc.SubscribeSingleInvoiceRequest, stream invoicesrpc.Invoices_SubscribeSingleInvoiceServer) error {
	return f.single(payments.Hash(req.RHash), stream)
}

// encodeInvoice is an invoice signed by key. A nil t panics on failure, for use
// in a server.
func encodeInvoice(t *testing.T, key *btcec.PrivateKey, hash payments.Hash, msats int64, description hashing.Digest, expiry time.Duration, network payments.Network) string {
	request, err := bolt11.Encode(&bolt11.Invoice{
		Network: network, AmountMsats: msats, CreatedAt: time.Unix(1_800_000_000, 0),
		PaymentHash: hash, PaymentSecret: [32]byte{9}, DescriptionHash: &description,
		Expiry: expiry, MinFinalCLTV: 80, Features: []int{8, 14},
	}, func(digest [32]byte) (sig [65]byte, err error) {
		copy(sig[:], btcecdsa.SignCompact(key, digest[:], true))
		return sig, nil
	})
	if err != nil {
		if t == nil {
			panic(err)
		}
		t.Fatal(err)
	}
	return request
}

// selfSigned makes a certificate for loopback as lnd's is, and writes it.
func selfSigned(t *testing.T, path string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
