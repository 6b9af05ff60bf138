package lnd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/lnrpc/walletrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
)

func TestNodeAndBalance(t *testing.T) {
	w := new(fakeLND).start(t, Config{Network: payments.Simnet})
	node, err := w.Node(t.Context())
	if want := (payments.Node{PubKey: nodePubKey, Network: payments.Simnet, Alias: "fake"}); err != nil || node != want {
		t.Errorf("Node = %+v, %v; want %+v", node, err, want)
	}
	balance, err := w.Balance(t.Context())
	if want := (payments.Balance{SpendableMsats: 7_000_001, ReservedMsats: 22}); err != nil || balance != want {
		t.Errorf("Balance = %+v, %v; want %+v", balance, err, want)
	}
	if got, err := w.Receivable(t.Context()); err != nil || got != 33 {
		t.Errorf("receivable %d, %v", got, err)
	}
}

// On the wrong network no method that moves money reaches lnd.
func TestWrongNetwork(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{Network: payments.Mainnet})
	if _, err := w.Node(t.Context()); !errors.Is(err, payments.ErrWrongNetwork) || !strings.Contains(err.Error(), "is on simnet") {
		t.Errorf("Node: %v, want ErrWrongNetwork that names both", err)
	}
	moves := map[string]func() error{
		"create": func() error { _, err := w.CreateInvoice(t.Context(), holdInvoice()); return err },
		"settle": func() error { return w.SettleInvoice(t.Context(), testPreimage) },
		"cancel": func() error { return w.CancelInvoice(t.Context(), testHash) },
		"send":   func() error { return w.SendPayment(t.Context(), testPay(t)) },
	}
	for name, move := range moves {
		if err := move(); !errors.Is(err, payments.ErrWrongNetwork) {
			t.Errorf("%s: %v, want ErrWrongNetwork", name, err)
		}
	}
	for _, call := range fake.calls {
		if call != rpcGetInfo {
			t.Errorf("lnd was asked %s", call)
		}
	}
}

func TestUnknownNetwork(t *testing.T) {
	for _, chains := range [][]*lnrpc.Chain{nil, {{Network: "liquid"}}, {{Network: "mainnet"}, {Network: "simnet"}}} {
		fake := &fakeLND{info: &lnrpc.GetInfoResponse{IdentityPubkey: nodePubKey, Chains: chains}}
		if _, err := fake.start(t, Config{}).Node(t.Context()); !errors.Is(err, payments.ErrWrongNetwork) {
			t.Errorf("chains %v: %v, want ErrWrongNetwork", chains, err)
		}
	}
}

// Each answer of lnd's becomes an error that says what to do.
func TestErrorMapping(t *testing.T) {
	tests := []struct {
		answer error
		want   error
		hint   string
	}{
		{status.Error(codes.Unknown, "wallet locked, unlock it to enable full RPC access"), ErrWalletLocked, "lncli unlock"},
		{status.Error(codes.Unknown, "wallet locked, unlock it to enable full RPC access"), payments.ErrWalletUnavailable, ""},
		{status.Error(codes.Unknown, "wallet not created, create one to enable full RPC access"), payments.ErrWalletUnavailable, "lncli create"},
		{status.Error(codes.Unknown, "the RPC server is in the process of starting up, but not yet ready to accept calls"), payments.ErrWalletUnavailable, "starting"},
		{status.Error(codes.Unknown, "waiting to start, RPC services not available"), payments.ErrWalletUnavailable, "starting"},
		{status.Error(codes.Unknown, "permission denied"), payments.ErrUnauthorized, "uri:/lnrpc.Lightning/GetInfo"},
		{status.Error(codes.Unknown, "verification failed: signature mismatch after caveat verification"), payments.ErrUnauthorized, "belongs to another node"},
		{status.Error(codes.Unknown, "cannot get macaroon: root key with id 0 doesn't exist"), payments.ErrUnauthorized, "belongs to another node"},
		{status.Error(codes.Unknown, "expected 1 macaroon, got 0"), payments.ErrUnauthorized, "cannot read the macaroon"},
		{status.Error(codes.Unimplemented, "unknown service invoicesrpc.Invoices"), payments.ErrUnsupported, "too old"},
		{status.Error(codes.Unavailable, "transport is closing"), payments.ErrWalletUnavailable, "is lnd running at"},
		{status.Error(codes.ResourceExhausted, "busy"), payments.ErrWalletUnavailable, ""},
	}
	for _, test := range tests {
		fake := &fakeLND{refuse: func(string) error { return test.answer }}
		_, err := fake.start(t, Config{}).Node(t.Context())
		if !errors.Is(err, test.want) || !strings.Contains(fmt.Sprint(err), test.hint) {
			t.Errorf("%v became %v; want %v with hint %q", test.answer, err, test.want, test.hint)
		}
		if isRefusal(err) == errors.Is(err, payments.ErrWalletUnavailable) {
			t.Errorf("%v: refused = %v", err, isRefusal(err))
		}
	}
}

func TestNodeIsDown(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	cfg := w.cfg
	cfg.Address = "127.0.0.1:1" // nobody listens on a reserved port
	down, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	if _, err := down.Node(t.Context()); !errors.Is(err, payments.ErrWalletUnavailable) || !strings.Contains(err.Error(), "is lnd running at 127.0.0.1:1?") {
		t.Errorf("Node: %v, want ErrWalletUnavailable with a hint", err)
	}
	// A payment that could not even be offered is not an unknown one.
	down.node = payments.Node{PubKey: nodePubKey, Network: payments.Simnet}
	if err := down.SendPayment(t.Context(), testPay(t)); !errors.Is(err, payments.ErrWalletUnavailable) || errors.Is(err, payments.ErrUnknownOutcome) {
		t.Errorf("SendPayment: %v, want ErrWalletUnavailable alone", err)
	}
}

// Another node's certificate is no node of ours, and the macaroon stays home.
func TestWrongCertificate(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	cfg := w.cfg
	cfg.TLSCertFile = filepath.Join(t.TempDir(), "other.cert")
	selfSigned(t, cfg.TLSCertFile)
	stranger, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Node(t.Context()); !errors.Is(err, payments.ErrWalletUnavailable) || !strings.Contains(err.Error(), "is not the certificate of the lnd") {
		t.Errorf("Node: %v, want a hint at the certificate", err)
	}
	if n := fake.count(rpcGetInfo); n != 0 {
		t.Errorf("the node was reached %d times", n)
	}
}

func TestCallTimeout(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	fake := &fakeLND{refuse: func(string) error { <-release; return nil }}
	w := fake.start(t, Config{CallTimeout: 20 * time.Millisecond})
	if _, err := w.Node(t.Context()); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("a silent node: %v, want ErrWalletUnavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Node(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("the caller's end: %v, want context.Canceled alone", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	good := new(fakeLND).start(t, Config{}).cfg
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]func(*Config){
		"no address":         func(c *Config) { c.Address = "" },
		"no certificate":     func(c *Config) { c.TLSCertFile = "" },
		"no macaroon":        func(c *Config) { c.MacaroonFile = "" },
		"negative block":     func(c *Config) { c.BlockTime = -1 },
		"missing macaroon":   func(c *Config) { c.MacaroonFile = "/nonexistent/macaroon" },
		"empty macaroon":     func(c *Config) { c.MacaroonFile = file("") },
		"hex macaroon":       func(c *Config) { c.MacaroonFile = file(macaroonHex) },
		"large macaroon":     func(c *Config) { c.MacaroonFile = file("\x02" + strings.Repeat("x", maxCredential)) },
		"not a certificate":  func(c *Config) { c.TLSCertFile = file("hello") },
		"missing certifcate": func(c *Config) { c.TLSCertFile = "/nonexistent/cert" },
	}
	for name, spoil := range tests {
		cfg := good
		spoil(&cfg)
		if w, err := Open(cfg); err == nil {
			_ = w.Close()
			t.Errorf("%s: Open accepted it", name)
		} else if strings.Contains(err.Error(), macaroonHex) {
			t.Errorf("%s: the error shows the macaroon: %v", name, err)
		}
	}
}

func TestMacaroonIsNotPrinted(t *testing.T) {
	m := macaroon{hex: macaroonHex}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("credential", "macaroon", m)
	printed := log.String() + fmt.Sprintf("%v %+v %#v %s", m, m, m, m)
	if strings.Contains(printed, macaroonHex) {
		t.Errorf("the macaroon shows in %q", printed)
	}
	if !m.RequireTransportSecurity() {
		t.Error("the macaroon may travel in the clear")
	}
}

// Every URI is a method of a service, so that the macaroon can be baked, and a
// role has no right of the other.
func TestPermissionURIs(t *testing.T) {
	methods := map[string]bool{}
	for _, service := range []grpc.ServiceDesc{lnrpc.Lightning_ServiceDesc, invoicesrpc.Invoices_ServiceDesc, routerrpc.Router_ServiceDesc, walletrpc.WalletKit_ServiceDesc} {
		for _, m := range service.Methods {
			methods["/"+service.ServiceName+"/"+m.MethodName] = true
		}
		for _, s := range service.Streams {
			methods["/"+service.ServiceName+"/"+s.StreamName] = true
		}
	}
	for _, role := range []Role{Payee, Payer, ChainPayee, ChainPayer} {
		uris := PermissionURIs(role)
		if len(uris) == 0 {
			t.Errorf("%s has no permissions", role)
		}
		for _, uri := range uris {
			if !methods[uri] {
				t.Errorf("%s: lnd has no method %s", role, uri)
			}
		}
	}
	if slices.Contains(PermissionURIs(Payee), rpcSendPayment) || slices.Contains(PermissionURIs(ChainPayee), rpcFinalizePsbt) {
		t.Error("a payee may spend")
	}
	for _, uri := range PermissionURIs(Payer) {
		if strings.Contains(uri, "Invoice") {
			t.Errorf("a payer may call %s", uri)
		}
	}
	if PermissionURIs("admin") != nil {
		t.Error("an unknown role has permissions")
	}
}

// TestCheckPermissions: a macaroon that lacks one of what a role calls is found by
// asking, whichever that is, and nothing is changed by asking.
func TestCheckPermissions(t *testing.T) {
	reads := []string{rpcGetInfo, rpcChannelBalance, rpcListChannels, rpcListInvoices, rpcSubscribe}
	for _, role := range []Role{Payee, Payer, ChainPayee, ChainPayer} {
		for _, missing := range append(PermissionURIs(role), "") {
			t.Run(string(role)+missing, func(t *testing.T) {
				t.Parallel()
				f := &fakeLND{refuse: func(rpc string) error {
					switch {
					case rpc == missing:
						return status.Error(codes.Unknown, "permission denied")
					case !slices.Contains(reads, rpc):
						return status.Error(codes.Unknown, "invalid hash length of 1, want 32")
					}
					return nil
				}}
				err := f.start(t, Config{}).CheckPermissions(t.Context(), role)
				if missing == "" && err != nil || missing != "" && !errors.Is(err, payments.ErrUnauthorized) {
					t.Fatal(err)
				}
				if missing != "" && !strings.HasSuffix(err.Error(), "the macaroon lacks uri:"+missing) {
					t.Errorf("%v does not name %s alone", err, missing)
				}
				for _, rpc := range PermissionURIs(role) {
					if f.count(rpc) == 0 {
						t.Errorf("%s was not asked", rpc)
					}
				}
			})
		}
	}
}
