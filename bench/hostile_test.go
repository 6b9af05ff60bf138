package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/relay/server"
)

// relayArgument and a folder make this program a relay with its defaults.
// attackArgument, the address of a relay and a number make it that many
// hostile clients: in the process of the honest ones they would hold these up
// whatever the relay does.
const (
	relayArgument  = "relay-child"
	attackArgument = "attack-child"
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case len(os.Args) == 3 && os.Args[1] == relayArgument:
		serveChild(ctx)
	case len(os.Args) == 4 && os.Args[1] == attackArgument:
		attackChild(ctx)
	default:
		os.Exit(m.Run())
	}
}

func serveChild(ctx context.Context) {
	srv, err := server.New(ctx, server.Config{Dir: os.Args[2], Uploaders: []string{server.Anyone}})
	if err == nil {
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			fmt.Println(ln.Addr())
			err = srv.Serve(ctx, ln)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func attackChild(ctx context.Context) {
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var attackers sync.WaitGroup
	for i := range n {
		attackers.Go(func() {
			attacks[i%len(attacks)](ctx, besieged{addr: os.Args[2]}, fmt.Sprintf("127.1.%d.%d", i/50, i%50+1))
		})
	}
	attackers.Wait()
}

// besieged is a relay in a process of its own.
type besieged struct {
	addr string
	pid  int
}

func besiege(tb testing.TB) besieged {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self, relayArgument, tb.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the relay: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return besieged{strings.TrimSpace(line), cmd.Process.Pid}
}

// peakMiB is the most memory that the relay has had resident.
func (r besieged) peakMiB(tb testing.TB) int {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		tb.Fatal(err)
	}
	return kib >> 10
}

// dial connects from an address of the loopback network, so that not all
// clients look like one host.
func (r besieged) dial(ctx context.Context, from string) (*websocket.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	tr := &http.Transport{DialContext: d.DialContext}
	ws, _, err := websocket.Dial(ctx, "ws://"+r.addr, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	return ws, nil
}

// pace is how long a hostile client waits between messages: 100 a second of
// each, so that it is not their own making that takes the processors.
const pace = 10 * time.Millisecond

// attacks are what hostile clients do until ctx ends. One that the relay drops
// comes back.
var attacks = []func(ctx context.Context, r besieged, from string){
	// Subscribes to everything and never reads.
	func(ctx context.Context, r besieged, from string) {
		ws, err := r.dial(ctx, from)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		_ = ws.Write(ctx, websocket.MessageText, []byte(`["REQ","all",{}]`))
		<-ctx.Done()
	},
	// Floods with what is no message.
	repeat(func(int) []byte { return []byte(`["EVENT",{"id":"` + strings.Repeat("0", 200) + `"}]`) }),
	// Asks for much, in many ways.
	repeat(func(i int) []byte {
		values := make([]string, 400)
		for k := range values {
			values[k] = fmt.Sprintf(`"%064x"`, i*400+k)
		}
		return fmt.Appendf(nil, `["REQ","%d",{},{"kinds":[1],"authors":[%s]}]`, i, strings.Join(values, ","))
	}),
	// Publishes twenty events with bad signatures.
	repeat(func(i int) []byte {
		ev := nostr.Event{
			Kind: 1, CreatedAt: nostr.Now(), Content: fmt.Sprint(i), Tags: nostr.Tags{},
			PubKey: "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", Sig: strings.Repeat("1", 128),
		}
		ev.ID = nip01.ID(&ev)
		return nip01.AppendEventMessage(nil, &ev)
	}),
	// Begins a frame, or a request, and leaves it at that.
	func(ctx context.Context, r besieged, from string) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(ctx, "tcp", r.addr)
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", r.addr)
		_, _ = c.Write([]byte{0x81, 0xfe, 0xff, 0xff, 1, 2, 3, 4, 'x'}) // 65,535 bytes to come
		<-ctx.Done()
	},
}

// repeat is an attack that sends message after message and reads the answers.
// The messages are made once.
func repeat(message func(i int) []byte) func(context.Context, besieged, string) {
	docs := make([][]byte, 20)
	for i := range docs {
		docs[i] = message(i)
	}
	return func(ctx context.Context, r besieged, from string) {
		for ctx.Err() == nil {
			ws, err := r.dial(ctx, from)
			if err != nil {
				continue
			}
			go func() {
				for {
					if _, _, err := ws.Read(ctx); err != nil {
						return
					}
				}
			}()
			for i := 0; ; i++ {
				if ws.Write(ctx, websocket.MessageText, docs[i%len(docs)]) != nil {
					break
				}
				select {
				case <-time.After(pace):
				case <-ctx.Done():
				}
			}
			ws.CloseNow()
		}
	}
}

// honest publishes n events and asks for each; it returns how long each answer
// took.
func honest(ctx context.Context, r besieged, from string, n int) ([]time.Duration, error) {
	ws, err := r.dial(ctx, from)
	if err != nil {
		return nil, err
	}
	defer ws.CloseNow()
	secret := nostr.GeneratePrivateKey()
	var took []time.Duration
	ask := func(doc []byte, answers ...string) error {
		begin := time.Now()
		if err := ws.Write(ctx, websocket.MessageText, doc); err != nil {
			return err
		}
		for _, want := range answers {
			_, got, err := ws.Read(ctx)
			if err != nil {
				return err
			}
			if !bytes.HasPrefix(got, []byte(want)) {
				return fmt.Errorf("got %.200s, want %s", got, want)
			}
		}
		took = append(took, time.Since(begin))
		return nil
	}
	for i := range n {
		ev := nostr.Event{Kind: 5050, CreatedAt: nostr.Now(), Content: fmt.Sprint(i), Tags: nostr.Tags{{"i", "echo", "text"}}}
		if err := ev.Sign(secret); err != nil {
			return nil, err
		}
		err := errors.Join(
			ask(nip01.AppendEventMessage(nil, &ev), `["OK","`+ev.ID+`",true,`),
			ask([]byte(`["REQ","q",{"ids":["`+ev.ID+`"]}]`), `["EVENT","q",`, `["EOSE","q"]`),
			ws.Write(ctx, websocket.MessageText, []byte(`["CLOSE","q"]`)),
		)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return took, nil
}

// siege runs the hostile clients for as long as the honest ones need for their n
// events each, and returns how long every answer to these took.
func siege(tb testing.TB, r besieged, hostile, honestClients, n int) []time.Duration {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	attack := exec.Command(os.Args[0], attackArgument, r.addr, strconv.Itoa(hostile))
	attack.Stderr = os.Stderr
	if err := attack.Start(); err != nil {
		tb.Fatal(err)
	}
	var (
		served sync.WaitGroup
		mu     sync.Mutex
		all    []time.Duration
	)
	for i := range honestClients {
		served.Go(func() {
			took, err := honest(ctx, r, fmt.Sprintf("127.2.0.%d", i+1), n)
			if err != nil {
				tb.Errorf("an honest client: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	served.Wait()
	_ = attack.Process.Signal(syscall.SIGTERM)
	if err := attack.Wait(); err != nil {
		tb.Errorf("the hostile clients: %v", err)
	}
	slices.Sort(all)
	return all
}

// maxMiB is what the relay may have resident whatever is done to it.
const maxMiB = 512

// TestSiege: every honest client is served, and the hostile ones cost a bounded
// amount of memory. It takes a quarter of a minute on two busy processors, so it is
// played whole, but for the race detector: under that one the relay takes ten times as
// long and several times the memory.
func TestSiege(t *testing.T) {
	r := besiege(t)
	const events = 20
	hostile := 500
	if underRaceDetector() {
		hostile = testclass.Size(t, 100, 500, "test")
	}
	clients := hostile / 10
	if served := siege(t, r, hostile, clients, events); len(served) != clients*events*2 {
		t.Errorf("%d answers, want %d", len(served), clients*events*2)
	}
	if peak := r.peakMiB(t); peak > maxMiB {
		t.Errorf("%d MiB resident", peak)
	}
}

func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// BenchmarkSiege has 500 hostile clients and 50 honest ones.
func BenchmarkSiege(b *testing.B) {
	r := besiege(b)
	var all []time.Duration
	for b.Loop() {
		all = append(all, siege(b, r, 500, 50, 20)...)
	}
	slices.Sort(all)
	ms := func(p int) float64 { return float64(all[(len(all)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(ms(50), "p50-ms")
	b.ReportMetric(ms(99), "p99-ms")
	b.ReportMetric(float64(r.peakMiB(b)), "peak-MiB")
}
