//go:build lnd

package crashmatrix

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path"
	"sync"
	"testing"
	"time"
)

// wire is a proxy before lnd's gRPC port. It speaks TLS with a certificate of
// its own, so that it sees each call and each message of the answer, and can
// stop before or after it is forwarded.
type wire struct {
	who      string // whose wallet: "provider" or "buyer"
	trap     *trap
	upstream string
	client   *http.Client
	line     *line
}

func newWire(t *testing.T, who string, trap *trap, upstream, upstreamCert, certFile string) *wire {
	t.Helper()
	pool := x509.NewCertPool()
	raw, err := os.ReadFile(upstreamCert)
	check(t, err)
	pool.AppendCertsFromPEM(raw)
	w := &wire{who: who, trap: trap, upstream: upstream, line: listen(t)}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	w.client = &http.Client{Transport: transport}
	cert := selfSigned(t, certFile)
	server := &http.Server{
		Handler: w, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ErrorLog: log.New(io.Discard, "", 0), // connections that the test cuts
	}
	go func() { _ = server.ServeTLS(w.line, "", "") }()
	t.Cleanup(func() { _ = server.Close(); transport.CloseIdleConnections() })
	return w
}

// ServeHTTP forwards one call. All that the programs make have one request
// message and any number of answers.
func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rpc := path.Base(r.URL.Path)
	body, err := io.ReadAll(r.Body)
	probe := isProbe(rpc, body)
	if err != nil || !probe && w.trap.see(moment(w.who+" asks "+rpc)) == drop {
		panic(http.ErrAbortHandler)
	}
	if rpc == "SendPaymentV2" && !probe {
		w.trap.waitForChannel()
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "https://"+w.upstream+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	resp, err := w.client.Do(out)
	if err != nil {
		if r.Context().Err() == nil { // lnd is gone, and not the one who asked
			w.line.hangUp()
		}
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		rw.Header()[name] = values
	}
	for {
		message, err := readMessage(resp.Body)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !probe && w.trap.see(moment(w.who+" hears "+rpc+stateOf(rpc, message))) == drop {
			panic(http.ErrAbortHandler)
		}
		_, _ = rw.Write(message)
		_ = http.NewResponseController(rw).Flush()
	}
	for name, values := range resp.Trailer {
		rw.Header()[http.TrailerPrefix+name] = values
	}
}

// isProbe reports whether a call only asks if the macaroon permits it: it names no
// payment, since it is too short for a hash, so it is no step of any purchase.
func isProbe(rpc string, body []byte) bool {
	switch rpc {
	case "SendPaymentV2", "TrackPaymentV2", "LookupInvoice", "SettleInvoice", "CancelInvoice", "AddInvoice", "AddHoldInvoice",
		"FundPsbt", "FinalizePsbt", "PublishTransaction", "ReleaseOutput":
		return len(body) < 5+32
	}
	return false
}

// readMessage reads one gRPC message with its head of a flag and a length.
func readMessage(r io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	message := make([]byte, 5+binary.BigEndian.Uint32(head[1:]))
	copy(message, head)
	_, err := io.ReadFull(r, message[5:])
	return message, err
}

// stateOf tells where the answer says that an invoice or a payment stands.
func stateOf(rpc string, message []byte) string {
	names, field := []string{" OPEN", " SETTLED", " CANCELED", " ACCEPTED"}, uint64(21)
	switch rpc {
	case "LookupInvoice":
	case "TrackPaymentV2", "SendPaymentV2":
		names, field = []string{"", " IN_FLIGHT", " SUCCEEDED", " FAILED", " INITIATED"}, 10
	default:
		return ""
	}
	if v := varintField(message[5:], field); v < uint64(len(names)) {
		return names[v]
	}
	return ""
}

// varintField reads a number out of a protobuf message; 0 if it is not there.
func varintField(b []byte, field uint64) (value uint64) {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return value
		}
		b = b[n:]
		skip := uint64(0)
		switch key & 7 {
		case 0:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return value
			}
			if key>>3 == field {
				value = v
			}
			skip = uint64(n)
		case 1:
			skip = 8
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 {
				return value
			}
			skip = uint64(n) + length
		case 5:
			skip = 4
		default:
			return value
		}
		if skip > uint64(len(b)) {
			return value
		}
		b = b[skip:]
	}
	return value
}

// line is a listener that can hang up on everybody.
type line struct {
	net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	dead  bool          // every new connection is hung up on
	tried chan struct{} // has one more each time that happened
}

func listen(t *testing.T) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return &line{Listener: l, conns: map[net.Conn]bool{}, tried: make(chan struct{}, 1)}
}

func (l *line) address() string { return l.Addr().String() }

// Accept implements net.Listener.
func (l *line) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		dead := l.dead
		if !dead {
			l.conns[c] = true
		}
		l.mu.Unlock()
		if !dead {
			return &call{c, l}, nil
		}
		c.Close()
		select {
		case l.tried <- struct{}{}:
		default:
		}
	}
}

// call is a connection that the line forgets when it is closed.
type call struct {
	net.Conn
	line *line
}

func (c *call) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c.Conn)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// cut hangs up and lets nobody through until mend.
func (l *line) cut() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	select {
	case <-l.tried:
	default:
	}
	l.hangUp()
}

// mend lets connections through again.
func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

// selfSigned makes a certificate for loopback as lnd's is, and writes it.
func selfSigned(t *testing.T, path string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "wire"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	check(t, err)
	check(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
