package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseRemote(t *testing.T) {
	for _, tt := range []struct {
		url     string
		allowed []string
		want    origin
		ok      bool
	}{
		{"https://example.com/a/b.git", []string{"example.com"}, origin{"example.com", "443", false}, true},
		{"https://Example.COM/a", []string{"EXAMPLE.com"}, origin{"example.com", "443", false}, true},
		{"https://example.com:443/a", []string{"*"}, origin{"example.com", "443", false}, true},
		{"https://sub.example.com/a", []string{"example.com"}, origin{}, false},
		{"https://example.com.evil.org/a", []string{"example.com"}, origin{}, false},
		{"https://example.com:22/a", []string{"*", "example.com"}, origin{}, false},
		{"http://example.com/a", []string{"*", "example.com"}, origin{}, false},
		{"http://127.0.0.1:80/a", []string{"http://127.0.0.1:80"}, origin{"127.0.0.1", "80", true}, true},
		{"http://127.0.0.1:81/a", []string{"http://127.0.0.1:80"}, origin{}, false},
		{"https://10.0.0.1/a", []string{"https://10.0.0.1"}, origin{"10.0.0.1", "443", true}, true},
		{"https://example.com/a", nil, origin{}, false},
		{"https://u@example.com/a", []string{"*"}, origin{}, false},
		{"https://example.com@evil.org/a", []string{"example.com"}, origin{}, false},
		{"https://example.com/", []string{"*"}, origin{}, false},
		{"https:///a", []string{"*"}, origin{}, false},
		{"https://example.com/a?x=y", []string{"*"}, origin{}, false},
		{"https://example.com/a#b", []string{"*"}, origin{}, false},
		{"https://example.com/a\n", []string{"*"}, origin{}, false},
		{"https://example.com/" + strings.Repeat("a", 3000), []string{"*"}, origin{}, false},
	} {
		got, err := parseRemote(tt.url, tt.allowed)
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("%.60s with %v: %+v %v", tt.url, tt.allowed, got, err)
		}
	}
}

// hello is what a client sends for a name.
func hello(name string, port uint16) []byte {
	b := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}, name...)
	return append(b, byte(port>>8), byte(port))
}

// conversation reads what it is given and forgets what it is told.
type conversation struct {
	io.Reader
	io.Writer
}

func TestReadHello(t *testing.T) {
	host, port, err := readHello(conversation{bytes.NewReader(hello("Example.com", 443)), io.Discard})
	if err != nil || host != "example.com" || port != "443" {
		t.Errorf("%s %s %v", host, port, err)
	}
	for text, address := range map[string][]byte{"10.0.0.1": {1, 10, 0, 0, 1}, "::1": append([]byte{4, 15: 0}, 1)} {
		host, port, err := readHello(conversation{bytes.NewReader(append(append([]byte{5, 0, 5, 1, 0}, address...), 1, 187)), io.Discard})
		if err != nil || host != text || port != "443" {
			t.Errorf("%s: %s %s %v", text, host, port, err)
		}
	}
	whole := hello("example.com", 443)
	for n := range len(whole) {
		if _, _, err := readHello(conversation{bytes.NewReader(whole[:n]), io.Discard}); err == nil {
			t.Errorf("%d bytes are enough", n)
		}
	}
	for at, value := range map[int]byte{0: 4, 3: 4, 4: 2, 6: 2, 7: 0} {
		bad := bytes.Clone(whole)
		bad[at] = value
		if _, _, err := readHello(conversation{bytes.NewReader(bad), io.Discard}); err == nil {
			t.Errorf("byte %d may be %d", at, value)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello("example.com", 443))
	f.Add([]byte{5, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		host, _, err := readHello(conversation{bytes.NewReader(in), io.Discard})
		if err == nil && len(host) > 3*255 {
			t.Errorf("a name of %d bytes", len(host))
		}
	})
}

// testProxy starts a proxy whose listener is on the host's loopback device.
func testProxy(t *testing.T, o origin) (p *proxy, address string) {
	t.Helper()
	return testProxyOf(t, o, Network{})
}

func testProxyOf(t *testing.T, o origin, n Network) (p *proxy, address string) {
	t.Helper()
	p, theirs, err := newProxy(o, n)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(int(theirs.Fd()), []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l.Close()
	theirs.Close()
	p.start(t.Context())
	t.Cleanup(p.stop)
	return p, l.Addr().String()
}

// ask sends a hello and returns the proxy's code.
func ask(t *testing.T, address string, message []byte) (byte, net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
	return answer[3], conn
}

func TestProxyKnowsOneServer(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	_, address := testProxy(t, origin{host: "localhost", port: strings.TrimPrefix(server.Addr().String(), "127.0.0.1:"), plain: true})
	for name, message := range map[string][]byte{
		"other name": hello("127.0.0.1", port), "other port": hello("localhost", 1),
	} {
		code, conn := ask(t, address, message)
		conn.Close()
		if code != 2 {
			t.Errorf("%s: code %d", name, code)
		}
	}
	code, conn := ask(t, address, hello("localhost", port))
	if code != 0 {
		t.Fatalf("the server itself: code %d", code)
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("%q %v", got, err)
	}
	conn.Close()
	server.Close()
	<-echoed
}

// A name of the operator's choice that leads into the private network.
func TestProxyLeadsNowherePrivate(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	_, address := testProxy(t, origin{host: "localhost", port: strings.TrimPrefix(server.Addr().String(), "127.0.0.1:")})
	if code, _ := ask(t, address, hello("localhost", port)); code != 4 {
		t.Errorf("code %d", code)
	}
}

func TestProxyWithoutAListenerStops(t *testing.T) {
	p, theirs, err := newProxy(origin{}, Network{})
	if err != nil {
		t.Fatal(err)
	}
	p.start(context.Background())
	theirs.Close()
	p.stop()
	p, theirs, err = newProxy(origin{}, Network{})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := unix.Sendmsg(int(theirs.Fd()), []byte{0}, unix.UnixRights(int(os.Stdin.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	p.start(context.Background())
	p.stop()
}

func TestDownloadsEnd(t *testing.T) {
	var room atomic.Int64
	room.Store(10)
	m := &metered{strings.NewReader(strings.Repeat("x", 100)), &room}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{m}, make([]byte, 4))
	if n != 8 || !errors.Is(err, errTooLarge) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// What a sandbox sends counts as what it gets: a server of the buyer's own
// choice takes anything.
func TestUploadsEnd(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	took := make(chan int64, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		n, _ := io.Copy(io.Discard, conn)
		took <- n
		conn.Close()
	}()
	port := server.Addr().(*net.TCPAddr).Port
	p, address := testProxy(t, origin{host: "localhost", port: strings.TrimPrefix(server.Addr().String(), "127.0.0.1:"), plain: true})
	p.room.Store(10)
	_, conn := ask(t, address, hello("localhost", uint16(port)))
	if _, err := conn.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came", n)
	}
	if n := <-took; n > 10 {
		t.Errorf("the server got %d bytes", n)
	}
}
