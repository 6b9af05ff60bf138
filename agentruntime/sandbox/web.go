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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Network is the network of jobs with the network policy "full": the web, by TCP to
// ports 80 and 443 of public addresses, through an HTTP proxy that is named in
// their environment. The zero value refuses the policy.
type Network struct {
	// Bytes bounds the traffic of one job in both directions; 0 refuses the policy.
	Bytes int64
	// Opened lists further networks that jobs may reach. Addresses of this machine,
	// loopback and link-local addresses are never reachable.
	Opened []netip.Prefix
}

const (
	maxWebHead      = 64 << 10
	certificateFile = "/etc/ssl/certs/ca-certificates.crt"
)

// errUsedUp is the error for a job that has used up its traffic.
var errUsedUp = errors.New("the job has sent and received as much as it may")

// webEnvironment names the proxy in all the spellings that programs use and, with
// the host's toolchain, the certificates.
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
		refuseWeb(conn, http.StatusBadRequest, errors.New("not a request to a proxy"))
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

// dialWeb connects to the server of a request. On an error it returns the HTTP
// status of the refusal.
func (p *proxy) dialWeb(ctx context.Context, req *http.Request) (net.Conn, int, error) {
	if p.room.Load() <= 0 {
		return nil, http.StatusForbidden, errUsedUp
	}
	host, port, err := webTarget(req)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if !slices.Contains([]string{"80", "443"}, port) {
		return nil, http.StatusForbidden, fmt.Errorf("port %s: jobs can reach only ports 80 and 443", port)
	}

	server, err := dialPublic(ctx, host, port, p.network.Opened)
	if err != nil { // leave out what the resolver said or a private address
		return nil, http.StatusBadGateway, fmt.Errorf("%s cannot be reached, or is not at a public address", host)
	}
	return server, 0, nil
}

// webTarget returns host and port of a tunnel's target or of a request's URL.
func webTarget(req *http.Request) (host, port string, err error) {
	if req.Method == http.MethodConnect {
		host, port, err = net.SplitHostPort(req.RequestURI)
		if err != nil || host == "" {
			return "", "", errors.New("CONNECT needs a host and a port")
		}
		return host, port, nil
	}

	if req.URL.Scheme != "http" || req.URL.Hostname() == "" {
		return "", "", errors.New("a proxy expects http://host/path, or CONNECT")
	}
	if port = req.URL.Port(); port == "" {
		port = "80"
	}
	return req.URL.Hostname(), port, nil
}

// forward passes on one plain request and its answer. It removes the headers meant
// for the proxy and makes the request the last of its connection.
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

// meteredWriter is metered for writing.
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

// refuseWeb answers with the reason why there is no connection.
func refuseWeb(conn net.Conn, status int, why error) {
	text := brief(why.Error()) + "\n"
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(text), text)
}

// A sandbox with network access has no network device, but a socket that its
// process 1 opens on its own loopback device and passes to the agent. To fetch a
// repository, the agent serves it as a SOCKS proxy (RFC 1928) for one server; for a
// job with the network policy "full", as an HTTP proxy. Encryption is between the
// program in the sandbox and its server.
const (
	proxyPort    = 1080
	proxyAddress = "127.0.0.1:1080"
	proxyFD      = 5

	maxProxyConns = 32
	maxFetchBytes = 512 << 20
	dialTimeout   = 20 * time.Second
	helloTimeout  = 10 * time.Second
)

var errNotOffered = errors.New("not the server of the repository")

// offerProxy runs in process 1. It listens where git will connect and passes the
// socket to the agent; a socket stays in the network namespace in which it was
// made.
func offerProxy() error {
	defer unix.Close(proxyFD)

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("offer proxy: %w", err)
	}
	defer unix.Close(fd)

	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: proxyPort}); err != nil {
		return fmt.Errorf("offer proxy: %w", err)
	}
	if err := unix.Listen(fd, maxProxyConns); err != nil {
		return fmt.Errorf("offer proxy: %w", err)
	}
	if err := unix.Sendmsg(proxyFD, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("offer proxy: %w", err)
	}

	return nil
}

// proxy is the agent's side. stop ends it and all its goroutines.
type proxy struct {
	origin  origin        // the only server, for a repository
	network Network       // what a job may reach; unused with an origin
	control *net.UnixConn // the other end of proxyFD
	cancel  context.CancelFunc
	room    atomic.Int64 // remaining traffic in bytes, in both directions
	done    sync.WaitGroup
}

// newProxy returns a proxy to the origin of a repository or, without one, to the
// networks that n allows. It also returns the end for process 1.
func newProxy(o origin, n Network) (*proxy, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("start proxy: %w", err)
	}
	agentEnd, childEnd := os.NewFile(uintptr(fds[0]), "proxy"), os.NewFile(uintptr(fds[1]), "proxy")
	defer agentEnd.Close()

	conn, err := net.FileConn(agentEnd)
	if err != nil {
		childEnd.Close()
		return nil, nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &proxy{origin: o, network: n, control: conn.(*net.UnixConn), cancel: func() {}}
	p.room.Store(maxFetchBytes)
	if o.host == "" {
		p.room.Store(n.Bytes)
	}
	return p, childEnd, nil
}

// start and stop do nothing for a sandbox without a proxy.
func (p *proxy) start(ctx context.Context) {
	if p == nil {
		return
	}
	ctx, p.cancel = context.WithCancel(ctx)
	p.done.Go(func() { p.serve(ctx) })
}

func (p *proxy) stop() {
	if p == nil {
		return
	}
	p.cancel()
	p.control.Close()
	p.done.Wait()
}

// serve waits for the listener and accepts its connections until the end. If the
// sandbox sends no listener it has no network; git's own error message then
// explains that well enough.
func (p *proxy) serve(ctx context.Context) {
	answer := p.connect
	if p.origin.host == "" {
		answer = p.web
	}
	l, err := receiveListener(p.control)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()

	slots := make(chan struct{}, maxProxyConns)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		slots <- struct{}{}
		p.done.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			answer(ctx, conn)
		})
	}
}

func receiveListener(control *net.UnixConn) (net.Listener, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := control.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("process 1 sent no listener")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("process 1 sent no listener")
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()

	return net.FileListener(f)
}

// connect serves one connection: greeting, request, answer, then bytes in both
// directions.
func (p *proxy) connect(ctx context.Context, git net.Conn) {
	_ = git.SetDeadline(time.Now().Add(helloTimeout))
	host, port, err := readHello(git)
	if err != nil {
		return
	}

	server, err := p.dial(ctx, host, port)
	code := byte(0)
	switch {
	case errors.Is(err, errNotOffered):
		code = 2 // not allowed by the rules
	case err != nil:
		code = 4 // host unreachable
	}

	_ = git.SetDeadline(time.Time{})
	if _, writeErr := git.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0}); writeErr != nil || err != nil {
		if server != nil {
			server.Close()
		}
		return
	}
	p.join(ctx, git, git, server)
}

// join copies bytes in both directions until one side ends: from the client's
// reader to the server, and from the server to the client.
func (p *proxy) join(ctx context.Context, client io.WriteCloser, from io.Reader, server net.Conn) {
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	p.done.Go(func() {
		_, _ = io.Copy(server, &metered{from, &p.room})
		server.Close()
	})
	_, _ = io.Copy(client, &metered{server, &p.room})
	client.Close()
}

// readHello reads the beginning of a SOCKS connection: no authentication, and a
// request for a connection to a name, or to an address if the origin is one.
func readHello(rw io.ReadWriter) (host, port string, err error) {
	bad := errors.New("not the proxy's protocol")
	var head [4]byte
	if _, err := io.ReadFull(rw, head[:2]); err != nil {
		return "", "", err
	}
	if head[0] != 5 {
		return "", "", bad
	}
	if _, err := io.ReadFull(rw, make([]byte, head[1])); err != nil {
		return "", "", err
	}
	if _, err := rw.Write([]byte{5, 0}); err != nil {
		return "", "", err
	}
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return "", "", err
	}
	if head[0] != 5 || head[1] != 1 {
		return "", "", bad
	}

	size := map[byte]int{1: net.IPv4len, 4: net.IPv6len}[head[3]]
	if head[3] == 3 {
		var length [1]byte
		if _, err := io.ReadFull(rw, length[:]); err != nil {
			return "", "", err
		}
		size = int(length[0])
	}

	rest := make([]byte, size+2)
	if _, err := io.ReadFull(rw, rest); err != nil || size == 0 {
		return "", "", errors.Join(bad, err)
	}
	host = strings.ToLower(string(rest[:size]))
	if head[3] != 3 {
		host = net.IP(rest[:size]).String()
	}
	return host, strconv.Itoa(int(rest[size])<<8 | int(rest[size+1])), nil
}

// dial connects to the origin, at a public address unless the operator named the
// whole origin. The address is checked at the time of the connection, because the
// name may resolve differently later.
func (p *proxy) dial(ctx context.Context, host, port string) (net.Conn, error) {
	if host != p.origin.host || port != p.origin.port {
		return nil, errNotOffered
	}
	if p.origin.plain {
		d := net.Dialer{Timeout: dialTimeout}
		return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	}
	return dialPublic(ctx, host, port, nil)
}

// dialPublic connects to public addresses and to networks that the operator opened.
// This machine's addresses may change, so they are listed each time.
func dialPublic(ctx context.Context, host, port string, opened []netip.Prefix) (net.Conn, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("own addresses: %w", err)
	}
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return checkPublic(address, own, opened)
	}}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// metered bounds the bytes of a transfer.
type metered struct {
	r    io.Reader
	room *atomic.Int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.room.Add(-int64(n)) < 0 {
		return 0, errTooLarge
	}
	return n, err
}
