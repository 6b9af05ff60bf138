package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// strangerEnv makes the test binary a stranger to the relay at that address. In the
// process of the relay, Go would share the relay's turns on the processors with him.
const strangerEnv = "LIGHTWORK_RELAY_TEST_STRANGER"

// attackUntilKilled does all at once that the limits of one address allow: its
// connections are full of filters that its own events, with as many tags as fit,
// nearly match. It says when it begins.
func attackUntilKilled(addr string) {
	const subscribers, publishers = 40, 16
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "the stranger:", err)
		os.Exit(1)
	}
	ctx := context.Background()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	dial := func() *websocket.Conn {
		ws, _, err := websocket.Dial(ctx, "ws://"+addr, &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			fail(err)
		}
		ws.SetReadLimit(1 << 20)
		return ws
	}

	for range subscribers {
		ws := dial()
		for i := range 9 {
			if err := ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `["REQ","q%d",%s]`, i, crossedFilter(1990))); err != nil {
				fail(err)
			}
			_, answer, err := ws.Read(ctx)
			if err != nil {
				fail(err)
			}
			if !bytes.HasPrefix(answer, []byte(`["EOSE"`)) { // the address has its values
				break
			}
		}
	}

	docs := make([][]byte, 200)
	for i := range docs {
		ev := tagged(510, fmt.Sprint(i))
		ev.CreatedAt = nostr.Now()
		if err := ev.Sign(bobSecret); err != nil {
			fail(err)
		}
		docs[i] = nip01.AppendEventMessage(nil, &ev)
	}

	for k := range publishers {
		ws := dial()
		go func() {
			for {
				if _, _, err := ws.Read(ctx); err != nil {
					return
				}
			}
		}()
		go func() {
			for i := k; ; i += publishers {
				if ws.Write(ctx, websocket.MessageText, docs[i%len(docs)]) != nil {
					return
				}
			}
		}()
	}
	fmt.Println("begun")
	select {}
}

// attackApart starts the stranger and returns when he has begun.
func attackApart(t *testing.T, addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), strangerEnv+"="+addr)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the stranger does not begin: %v", err)
	}
}

// processor is how long a thread has run, and how long it has waited for a processor
// that others had.
type processor struct{ ran, waited time.Duration }

// threads reads that for each thread of this process. It is empty where the kernel
// does not count it.
func threads() map[string]processor {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // only a bad pattern fails
	all := map[string]processor{}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var p processor
		if _, err := fmt.Sscan(string(doc), &p.ran, &p.waited); err == nil {
			all[file] = p
		}
	}
	return all
}

// own is the part of the time since before for which no thread of this process had to
// wait for a processor: all of it on a machine that has time. Where threads waited and
// ran side by side, it is the part that they got of what they wanted.
func own(took time.Duration, before map[string]processor) time.Duration {
	var sum processor
	for thread, now := range threads() {
		sum.ran += now.ran - before[thread].ran
		sum.waited += now.waited - before[thread].waited
	}
	wanted := sum.ran + sum.waited
	if wanted <= took {
		return took - sum.waited
	}
	return time.Duration(float64(took) * float64(sum.ran) / float64(wanted))
}

// TestStrangerDelaysNobody: whatever one address does within its limits, publishing
// takes the others no longer than is promised.
//
// The promise is of a relay that gets the processors when it wants them. Here other
// tests want them too, and the stranger himself. So what the kernel says that the relay
// waited for them does not count.
func TestStrangerDelaysNobody(t *testing.T) {
	const promised = 250 * time.Millisecond
	r := start(t, Config{Limits: Limits{MaxPerAddress: hostConnections}})
	reader := r.peerFrom(t, "127.0.0.4")
	reader.send(`["REQ","s",{"limit":0,"authors":["` + publicKey(t, aliceSecret) + `"]}]`)
	reader.expect("EOSE s")
	good := r.peerFrom(t, "127.0.0.3")
	type durations struct{ own, all []time.Duration }
	publish := func(what string, enough func() bool) (took durations) {
		for i := 0; i < 100 || !enough(); i++ {
			ev := note(t, fmt.Sprint(what, i), 0)
			before, at := threads(), time.Now()
			good.put(ev)
			reader.expect("EVENT s " + ev.Content)
			all := time.Since(at)
			took.all = append(took.all, all)
			took.own = append(took.own, own(all, before))
		}
		slices.Sort(took.all)
		slices.Sort(took.own)
		return took
	}
	p99 := func(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)*99/100] }
	calm := publish("before ", func() bool { return true })

	attackApart(t, r.addr)
	ends := time.Now().Add(patience)
	attacked := publish("honest ", func() bool { // as long as his burst lasts
		var n int
		count(t, r.srv, "SELECT count(*) FROM events WHERE pubkey = x'"+publicKey(t, bobSecret)+"'", &n)
		if n < 200 && time.Now().After(ends) {
			t.Fatalf("the stranger published %d events", n)
		}
		return n == 200
	})
	t.Logf("%d publishes: p99 %v (%v by the clock), median %v; without the attack p99 %v (%v)", len(attacked.own),
		p99(attacked.own), p99(attacked.all), attacked.own[len(attacked.own)/2], p99(calm.own), p99(calm.all))
	if delay := p99(attacked.own) - p99(calm.own); delay > promised && !raceDetector() {
		t.Errorf("an honest publish is delayed by %v at p99, want at most %v", delay, promised)
	}
}

// raceDetector reports whether this program watches itself, which costs it its
// timing.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestHonestWaitsForASlice: however much of a stranger's is verified, a commit has no
// more of it than a slice, and another's event is in the next one.
func TestHonestWaitsForASlice(t *testing.T) {
	s, err := New(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := func(address string) *client {
		c := &client{host: s.hosts.join(address)}
		s.verified.join(&c.toStore, &c.host.toStore)
		return c
	}
	const cost = 33
	bring := func(c *client, n int) {
		for range n {
			s.verified.push(&c.toStore, &job{client: c, cost: cost})
		}
	}
	batch := func() (of map[*client]int) {
		of = map[*client]int{}
		l, first, ok := s.verified.wait()
		if !ok {
			t.Fatal("nothing waits")
		}
		for _, j := range s.fill(nil, l, first) {
			of[j.client] += j.cost
		}
		return of
	}

	stranger, honest, own := at("192.0.2.1"), at("192.0.2.2"), at("127.0.0.1")
	bring(stranger, 20)
	if n := batch()[stranger]; n > maxSlice+cost {
		t.Errorf("a commit has %d of the stranger's alone, want at most %d", n, maxSlice+cost)
	}
	bring(honest, 1)
	if got := batch(); got[honest] != cost || got[stranger] > maxSlice+cost {
		t.Errorf("the next commit has %d of the other's, and %d of the stranger's", got[honest], got[stranger])
	}
	for len(s.verified.root.under) > 0 {
		batch()
	}
	bring(own, 20)
	if n := batch()[own]; n < maxBatch {
		t.Errorf("a commit of this machine's own events has %d, want %d", n, maxBatch)
	}
}

// TestAnnouncedTogether: what is stored waits for no other's deliveries before it is
// in its turn.
func TestAnnouncedTogether(t *testing.T) {
	s, err := New(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := func(address string) *client {
		c := &client{host: s.hosts.join(address)}
		c.out = newQueue(1<<20, c.host)
		s.deliveries.join(&c.toSpread, &c.host.toSpread)
		return c
	}
	stranger, honest := at("192.0.2.1"), at("192.0.2.2")
	m, err := nip01.ParseClient([]byte(`["REQ","q",`+crossedFilter(9)+`]`), Limits{}.withDefaults().parser())
	if err != nil {
		t.Fatal(err)
	}
	if !s.index.add(&subscription{client: stranger, filters: m.Filters}) {
		t.Fatal("too many values")
	}
	for i := range 20 {
		ev := crossed(t, 3, fmt.Sprint(i))
		s.spread <- delivery{to: stranger, job: &job{client: stranger, event: &ev}, answer: true}
	}
	ev := note(t, "honest", 0)
	s.spread <- delivery{to: honest, job: &job{client: honest, event: &ev}, answer: true}

	s.announceAll(s.spread)
	for place := 1; ; place++ {
		l, d, ok := s.deliveries.pop()
		if !ok {
			t.Fatal("the event is not announced")
		}
		if d.to == honest {
			break
		}
		if place > 1 {
			t.Fatal("it waits for more than one delivery of the stranger's")
		}
		s.deliveries.charge(l, 1000)
	}
}
