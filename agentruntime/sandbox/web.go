package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Network is what jobs with the network policy "full" get: the web, as TCP to
// the ports 80 and 443 of public addresses, through an HTTP proxy that their
// environment names. The zero value refuses the policy.
type Network struct {
	// Bytes that one job may send and receive together; 0 refuses the policy.
	Bytes int64
	// Opened are networks beside the public ones that jobs may reach. Addresses
	// of this machine, loopback and link-local ones are reached in no case.
	Opened []netip.Prefix
}

const (
	maxWebHead      = 64 << 10
	certificateFile = "/etc/ssl/certs/ca-certificates.crt"
)

// errUsedUp is what a job hears that had all the bytes it may have.
var errUsedUp = errors.New("the job has sent and received as much as it may")

// webEnvironment names the proxy to programs, which agree on no one spelling,
// and with the host's toolchain the certificates.
func webEnvironment(host bool) map[string]string {
	const proxy, none = "http://" + proxyAddress, "localhost,127.0.0.1,::1"
	env := map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "HTTP_PROXY": proxy, "HTTPS_PROXY": proxy,
		"no_proxy": none, "NO_PROXY": none,
	}
	if host {
		env["SSL_CERT_FILE"] = certificateFile
	}
	return env
}

// web answers one request of a job: a tunnel (CONNECT), or a plain HTTP request,
// after which the connection ends.
func (p *proxy) web(ctx context.Context, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	head := &io.LimitedReader{R: conn, N: maxWebHead}
	in := bufio.NewReader(head)
	req, err := http.ReadRequest(in)
	if err != nil {
		refuseWeb(conn, http.StatusBadRequest, errors.New("no request to a proxy"))
		return
	}
	head.N = math.MaxInt64
	server, status, err := p.dialWeb(ctx, req)
	if err != nil {
		refuseWeb(conn, status, err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if req.Method != http.MethodConnect {
		p.forward(ctx, conn, req, server)
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		server.Close()
		return
	}

	p.join(ctx, conn, in, server)
}

// dialWeb connects to the server that a request names, or says with which
// status it is refused.
func (p *proxy) dialWeb(ctx context.Context, req *http.Request) (net.Conn, int, error) {
	if p.room.Load() <= 0 {
		return nil, http.StatusForbidden, errUsedUp
	}
	host, port, err := webTarget(req)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if !slices.Contains([]string{"80", "443"}, port) {
		return nil, http.StatusForbidden, fmt.Errorf("port %s: jobs reach 80 and 443 only", port)
	}

	server, err := dialPublic(ctx, host, port, p.network.Opened)
	if err != nil { // without what the resolver or a private address would tell
		return nil, http.StatusBadGateway, fmt.Errorf("%s cannot be reached, or is not at a public address", host)
	}
	return server, 0, nil
}

// webTarget reads "host:port" of a tunnel, or the whole address of a request.
func webTarget(req *http.Request) (host, port string, err error) {
	if req.Method == http.MethodConnect {
		host, port, err = net.SplitHostPort(req.RequestURI)
		if err != nil || host == "" {
			return "", "", errors.New("CONNECT needs a host and a port")
		}
		return host, port, nil
	}

	if req.URL.Scheme != "http" || req.URL.Hostname() == "" {
		return "", "", errors.New("a proxy is asked for http://host/path, or to CONNECT")
	}
	if port = req.URL.Port(); port == "" {
		port = "80"
	}
	return req.URL.Hostname(), port, nil
}

// forward passes one plain request on and its answer back. The server gets it
// without what was meant for the proxy, as the last of its connection.
func (p *proxy) forward(ctx context.Context, client net.Conn, req *http.Request, server net.Conn) {
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()

	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Upgrade"} {
		req.Header.Del(name)
	}
	if _, named := req.Header["User-Agent"]; !named {
		req.Header.Set("User-Agent", "") // else Write adds Go's
	}
	req.Close = true
	p.done.Go(func() {
		if req.Write(&meteredWriter{server, &p.room}) != nil {
			server.Close()
		}
	})
	_, _ = io.Copy(client, &metered{server, &p.room})
	client.Close()
}

// meteredWriter is metered for what is sent.
type meteredWriter struct {
	w    io.Writer
	room *atomic.Int64
}

func (m *meteredWriter) Write(p []byte) (int, error) {
	if m.room.Add(-int64(len(p))) < 0 {
		return 0, errTooLarge
	}
	return m.w.Write(p)
}

// refuseWeb says why there is no connection.
func refuseWeb(conn net.Conn, status int, why error) {
	text := brief(why.Error()) + "\n"
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(text), text)
}
