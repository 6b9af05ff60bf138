package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// strictLND is an lnd whose macaroon permits what a test says. What it reads is empty
// and what it is told to do is refused.
type strictLND struct {
	mu      sync.Mutex
	permits []string
}

func (l *strictLND) permit(uris []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.permits = uris
}

// ServeHTTP answers a call of gRPC: a frame, if there is anything to say, and how it
// ended.
func (l *strictLND) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	allowed := slices.Contains(l.permits, r.URL.Path)
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	end := func(status, message string) {
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", message)
	}

	reply, reads := map[string][]byte{
		// GetInfoResponse: identity_pubkey and chains, with chain and network.
		"/lnrpc.Lightning/GetInfo": slices.Concat(field(1, "02"+strings.Repeat("79", 32)), field(16, string(slices.Concat(field(1, "bitcoin"), field(2, "simnet"))))),
		// ChannelBalanceResponse: local_balance and remote_balance, with 100 msat.
		"/lnrpc.Lightning/ChannelBalance": slices.Concat(field(3, "\x10\x64"), field(4, "\x10\x64")),
		// WalletBalanceResponse: a confirmed_balance of 100.
		"/lnrpc.Lightning/WalletBalance": {0x10, 0x64},
	}[r.URL.Path]
	switch {
	case !allowed:
		end("2", "permission denied")
	case r.URL.Path == "/lnrpc.Lightning/SubscribeInvoices":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case !reads:
		end("2", "invalid hash length of 1, want 32")
	default:
		_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(reply))}, reply...))
		end("0", "")
	}
}

// field is one field of a protobuf message that holds text or a message, below 128 bytes.
func field(number int, content string) []byte {
	tag := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(append(tag, byte(len(content))), content...)
}

// serve starts it, and returns how a node reaches it.
func (l *strictLND) serve(t *testing.T) config.LND {
	t.Helper()
	server := httptest.NewUnstartedServer(l)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	dir := t.TempDir()
	w := config.LND{
		Address: server.Listener.Addr().String(), TLSCertFile: filepath.Join(dir, "tls.cert"),
		MacaroonFile: filepath.Join(dir, "test.macaroon"), Network: payments.Simnet,
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for file, content := range map[string][]byte{w.TLSCertFile: cert, w.MacaroonFile: []byte("\x02\x01\x03lnd")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestWeakMacaroon: doctor names what a macaroon lacks, and neither selling nor an order
// begins without it. The next step is the whole command.
func TestWeakMacaroon(t *testing.T) {
	for _, backend := range []string{"lnd", config.BackendOnchain} {
		for _, role := range []string{"provider", "buyer"} {
			t.Run(backend+" "+role, func(t *testing.T) {
				t.Parallel()
				weakMacaroon(t, backend, role)
			})
		}
	}
}

func weakMacaroon(t *testing.T, backend, role string) {
	daemon := &strictLND{}
	s := config.Setup{ProviderWallet: "none", BuyerWallet: "none", Relay: "ws://" + port.Reserve(t), Name: "weak", PerMinuteMsats: 20_000}
	begin := []string{"buyer", "submit", "--max-sats", "100", "--cmd", "true"}
	if role == "provider" {
		begin = []string{"provider", "run"}
		s.ProviderWallet, s.ProviderLND = backend, daemon.serve(t)
	} else {
		s.BuyerWallet, s.BuyerLND = backend, daemon.serve(t)
	}
	dir := t.TempDir()
	if _, err := node.WriteSetup(dir, s); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lightwork.yaml")
	run := func(args ...string) string { // each has a reason to fail: there is no relay
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "lightwork"), append([]string{"-c", file}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err == nil {
			t.Errorf("%v ended well:\n%s", args, &out)
		}
		return out.String()
	}

	does, refunds := wallets.LndRoles(role, backend)
	rights := lnd.PermissionURIs(does)
	bake := "lncli bakemacaroon --save_to " + role + ".macaroon uri:" + strings.Join(rights, " uri:")
	right := rights[len(rights)-1]
	daemon.permit(rights[:len(rights)-1])
	if out := run("doctor"); !strings.Contains(out, "fail  "+role+" wallet") || !strings.Contains(out, "the macaroon lacks uri:"+right+"\n") || !strings.Contains(out, "-> "+bake) {
		t.Errorf("without %s doctor says\n%s", right, out)
	}
	if out := run(begin...); !strings.Contains(out, "the macaroon lacks uri:"+right+"\n") || !strings.Contains(out, bake) || strings.Contains(out, "selling as") {
		t.Errorf("without %s %v says\n%s", right, begin, out)
	}

	daemon.permit(rights)
	lacks := slices.DeleteFunc(lnd.PermissionURIs(refunds), func(uri string) bool { return slices.Contains(rights, uri) })
	prepaid := role == "provider" || backend == config.BackendOnchain // by what init writes
	if out := run("doctor"); prepaid != strings.Contains(out, "the macaroon lacks uri:"+strings.Join(lacks, " uri:")+"\n") || strings.Contains(out, "fail  "+role+" wallet") {
		t.Errorf("with its own rights alone doctor says\n%s", out)
	}
	daemon.permit(append(rights, lacks...))
	if out := run("doctor"); !strings.Contains(out, "ok    "+role+" wallet") {
		t.Errorf("with all rights doctor says\n%s", out)
	}
}
