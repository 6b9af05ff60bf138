package sandbox

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/schemas"
)

// serveOn answers with what it was asked, with TLS where config is not nil.
func serveOn(t *testing.T, l net.Listener, handler http.Handler, config *tls.Config) {
	t.Helper()
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}, TLS: config}
	if config != nil {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
}

func echo(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %s %s %d %v\n", r.Method, r.Host, r.RequestURI, n, r.Header["Proxy-Connection"])
}

// webJob runs shell commands under the network policy "full".
func webJob(t *testing.T, n Network, list ...string) *Result {
	t.Helper()
	req := request(t, map[string]any{"commands": commands(list...)}).Value.(*schemas.SandboxRunRequest)
	req.Sandbox.NetworkPolicy = "full"
	opts := testOptions(t)
	opts.Network = n
	r, err := Run(t.Context(), req, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fetchURL is a program that every sandbox here can run: it knows the proxy's
// variables.
func fetchURL(url string) string {
	return `python3 -c '
import sys, urllib.request, urllib.error
try: print(urllib.request.urlopen("` + url + `", timeout=20).read().decode(), end="")
except urllib.error.HTTPError as e: print(e.code, e.read().decode(), end="")
except Exception as e: print("no:", e)'`
}

func TestFullNetworkReachesTheInternetAndNothingElse(t *testing.T) {
	needsConfinement(t)
	require(t, "python3")
	if !inOwnNetwork(t) {
		return
	}
	listeners := internet(t, "80", "443", "8080")
	visited := make(chan string, 100)
	for _, l := range listeners {
		serveOn(t, l, http.HandlerFunc(echo), nil)
	}
	own, err := net.Listen("tcp4", "0.0.0.0:80")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, own, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { visited <- r.Host }), nil)

	get := func(n Network, url string) string {
		t.Helper()
		r := webJob(t, n, fetchURL(url))
		return r.Runs[0].StdoutPreview + r.Runs[0].StderrPreview
	}
	some := Network{Bytes: 1 << 20}
	if got := get(some, "http://"+serverPublic+"/a%2Fb?c=d"); got != "GET "+serverPublic+" /a%2Fb?c=d 0 []\n" {
		t.Errorf("the internet said %q", got)
	}
	for _, host := range []string{serverInside, providerPublic, providerInside, "169.254.169.254", "0.0.0.0", "[::1]"} {
		if got := get(some, "http://"+host+"/"); !strings.HasPrefix(got, "502 ") {
			t.Errorf("%s: %q", host, got)
		}
	}
	if got := get(some, "http://"+serverPublic+":8080/"); !strings.HasPrefix(got, "403 port 8080") {
		t.Errorf("another port: %q", got)
	}
	// What the operator opens is open, and never the machine itself.
	opened := Network{Bytes: 1 << 20, Opened: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}
	if got := get(opened, "http://"+serverInside+"/"); got != "GET "+serverInside+" / 0 []\n" {
		t.Errorf("the opened network said %q", got)
	}
	for _, host := range []string{providerInside, providerPublic} {
		if got := get(opened, "http://"+host+"/"); !strings.HasPrefix(got, "502 ") {
			t.Errorf("%s: %q", host, got)
		}
	}
	// Without the proxy there is no way at all.
	if got := get(some, "http://localhost/"); !strings.HasPrefix(got, "no:") {
		t.Errorf("the loopback device said %q", got)
	}
	r := webJob(t, some, "bash -c 'exec 3<>/dev/tcp/"+serverPublic+"/80' && echo connected", "true")
	if len(r.Runs) != 1 || strings.Contains(r.Runs[0].StdoutPreview, "connected") {
		t.Errorf("%+v", r.Runs)
	}
	if len(visited) > 0 {
		t.Errorf("jobs reached the provider itself as %s", <-visited)
	}
}

func TestFullNetworkIsMetered(t *testing.T) {
	needsConfinement(t)
	require(t, "python3")
	if !inOwnNetwork(t) {
		return
	}
	served := make(chan int64, 8)
	serveOn(t, internet(t, "80")[0], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, _ := io.Copy(w, io.LimitReader(zeros{}, 4<<20))
		served <- n
	}), nil)
	url := "http://" + serverPublic + "/"
	r := webJob(t, Network{Bytes: 1 << 20}, `python3 -c '
import urllib.request
n = 0
try:
  with urllib.request.urlopen("`+url+`", timeout=20) as r:
    while b := r.read1(65536): n += len(b)
except Exception: pass
print(n <= 1 << 20, n > 0)'`, fetchURL(url))
	if r.Runs[0].StdoutPreview != "True True\n" || !strings.HasPrefix(r.Runs[1].StdoutPreview, "403 "+errUsedUp.Error()) {
		t.Errorf("%+v", r.Runs)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFullNetworkIsOffUnlessSet(t *testing.T) {
	req := request(t, map[string]any{"commands": commands("true")}).Value.(*schemas.SandboxRunRequest)
	req.Sandbox.NetworkPolicy = "full"
	_, err := Run(t.Context(), req, testOptions(t))
	var re *RequestError
	if !errors.As(err, &re) || re.Field != "sandbox.network_policy" || !strings.Contains(re.Reason, "sandbox.full_network_mb") {
		t.Errorf("got %v", err)
	}
}

// An https server with a certificate of the operator's own authority, at what
// looks like a public address: the whole way of a repository.
func TestSourceIsAnHTTPSRemote(t *testing.T) {
	needsConfinement(t)
	if !inOwnNetwork(t) {
		return
	}
	repo := newRepository(t)
	cert := selfSigned(t, serverPublic)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	serveOn(t, internet(t, "443")[0], repo.handler(t), &tls.Config{Certificates: []tls.Certificate{cert}})
	opts := testOptions(t)
	opts.FetchFrom = []string{serverPublic, serverInside}
	address := "https://" + serverPublic + "/r.git"
	_, err := Run(t.Context(), gitRequest(t, address, repo.commit, "true"), opts)
	if re := (*RequestError)(nil); !errors.As(err, &re) || !strings.Contains(re.Reason, "certificate") {
		t.Errorf("an authority that nobody trusts: %v", err)
	}
	opts.CAFile = ca
	r, err := Run(t.Context(), gitRequest(t, address, repo.commit, showFiles), opts)
	if err != nil {
		t.Fatal(err)
	}
	checkFiles(t, r)
	_, err = Run(t.Context(), gitRequest(t, strings.Replace(address, serverPublic, serverInside, 1), repo.commit, "true"), opts)
	if re := (*RequestError)(nil); !errors.As(err, &re) || re.Field != "repo.source" {
		t.Errorf("the same server at a private address: %v", err)
	}
	opts.CAFile = filepath.Join(t.TempDir(), "none.pem")
	if _, err := Run(t.Context(), gitRequest(t, address, repo.commit, "true"), opts); err == nil || errors.Is(err, ErrRequest) {
		t.Errorf("a missing file is the operator's affair: %v", err)
	}
}

// What is no request to a proxy gets an answer or an end, and never a way.
func TestWebRefusesWhatItDoesNotKnow(t *testing.T) {
	_, address := testProxyOf(t, origin{}, Network{Bytes: 1 << 20})
	for text, want := range map[string]string{
		"\r\n\r\n":                                                             "400",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                    "400",
		"GET https://x/ HTTP/1.1\r\nHost: x\r\n\r\n":                           "400",
		"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n":                                "400",
		"CONNECT :443 HTTP/1.1\r\nHost: x\r\n\r\n":                             "400",
		"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n":                    "502",
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n":                     "403",
		"CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\nHost: x\r\n\r\n":            "502",
		"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 192.31.7.2\r\n\r\n":           "502",
		"GET http://x/ HTTP/1.1\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n": "400",
		"\x05\x01\x00": "",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(conn, text); _ = conn.(*net.TCPConn).CloseWrite() }()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || (want != "" && !strings.HasPrefix(resp.Status, want)) {
			t.Errorf("%.40q: %v %v", text, resp, err)
		}
		conn.Close()
	}
}
