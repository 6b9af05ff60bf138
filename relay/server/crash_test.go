package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// crashDirEnv makes the test binary a relay on that directory.
const crashDirEnv = "LIGHTWORK_RELAY_TEST_DIR"

// crashOwner is the public key of aliceSecret.
const crashOwner = "981cc2078af05b62ee1f98cff325aac755bf5c5836a265c254447b5933c6223b"

func serveUntilKilled(dir string) {
	srv, err := New(context.Background(), Config{Dir: dir, Owners: []string{crashOwner}, Uploaders: []string{Anyone}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	fmt.Fprintln(os.Stderr, srv.Serve(context.Background(), ln))
	os.Exit(1)
}

// TestDurableAfterOK kills the relay without warning while clients publish:
// what it acknowledged must be there afterwards.
func TestDurableAfterOK(t *testing.T) {
	dir := t.TempDir()
	addr, kill := serveApart(t, dir)
	acknowledged := publishUntilLost(t, addr, 60, kill)

	r := start(t, Config{Dir: dir})
	p := r.dial()
	for _, id := range acknowledged {
		if p.stored(`{"ids":["`+id+`"]}`) == "" {
			t.Errorf("event %s was acknowledged and is lost", id)
		}
	}
}

// TestBlobsDurableAfterOK does so while clients upload blobs, small ones and
// files: what was acknowledged is whole, nothing else is served, and what is
// counted is what is there.
func TestBlobsDurableAfterOK(t *testing.T) {
	const uploaders = 8
	dir := t.TempDir()
	addr, kill := serveApart(t, dir)
	r := &running{t: t, addr: addr}
	var (
		wg           sync.WaitGroup
		mu           sync.Mutex
		begun, taken []string
	)
	for i := range uploaders {
		wg.Go(func() {
			for j := 0; ; j++ {
				doc := fmt.Sprintf("%d of %d ", j, i)
				if j%4 == 3 {
					doc = strings.Repeat(doc, smallBlob/len(doc)+1)
				}
				mu.Lock()
				begun = append(begun, doc)
				mu.Unlock()
				if !r.tryUpload(t, fmt.Sprintf("%064x", i+1), doc) {
					return // it is dead
				}
				mu.Lock()
				if taken = append(taken, doc); len(taken) == 10*uploaders {
					kill()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(taken) < 10*uploaders {
		t.Fatalf("only %d uploads", len(taken))
	}

	r = start(t, Config{Dir: dir})
	size := int64(0)
	for _, doc := range begun {
		resp, got := r.request(t, http.MethodGet, "/"+sha(doc), "", nil)
		switch {
		case resp.StatusCode == http.StatusOK && got == doc:
			size += int64(len(doc)) + r.srv.blobs.owners(t, doc)*ownedCost
		case resp.StatusCode == http.StatusOK || slices.Contains(taken, doc):
			t.Errorf("blob %.20q: %d, %d of %d bytes", doc, resp.StatusCode, len(got), len(doc))
		}
	}
	if got := r.srv.blobs.room.used(); got != size {
		t.Errorf("%d bytes counted, %d there", got, size)
	}
}

// TestRoomsDurableAfterOK kills the relay while a buyer uploads into a room: what was
// acknowledged is there and counted once, nothing else is served, and the upload of all
// of it once more fills the room exactly.
func TestRoomsDurableAfterOK(t *testing.T) {
	const blobs, enough = 60, 20
	dir := t.TempDir()
	addr, kill := serveApart(t, dir)
	r := &running{t: t, addr: addr}
	docs, size := make([]string, blobs), 0
	for i := range docs {
		docs[i] = strings.Repeat(fmt.Sprintf("chunk %d ", i), 1+i%2*smallBlob/8)
		size += len(docs[i])
	}
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(1), publicKey(t, bobSecret), size, blobs))

	var wg sync.WaitGroup
	var taken atomic.Int64
	acknowledged := make([]bool, blobs)
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < blobs; i += 4 {
				if acknowledged[i] = r.tryPut(t, docs[i], intoAuth(t, bobSecret, requestID(1), sha(docs[i]))); !acknowledged[i] {
					return
				}
				if taken.Add(1) == enough {
					kill()
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() < enough {
		t.Fatalf("only %d uploads", taken.Load())
	}

	r = start(t, Config{Dir: dir, Owners: []string{crashOwner}})
	for i, doc := range docs {
		resp, got := r.request(t, http.MethodGet, "/"+sha(doc), "", nil)
		if there := resp.StatusCode == http.StatusOK; there && got != doc || !there && acknowledged[i] {
			t.Errorf("chunk %d: %d, %d of %d bytes", i, resp.StatusCode, len(got), len(doc))
		}
	}
	if got, want := r.srv.blobs.room.used(), int64(size+blobs*ownedCost); got != want {
		t.Errorf("%d bytes counted, %d reserved", got, want)
	}

	for i, doc := range docs {
		resp, body := r.uploadInto(t, bobSecret, requestID(1), doc)
		if resp.StatusCode/100 != 2 || acknowledged[i] && resp.StatusCode != http.StatusOK {
			t.Errorf("chunk %d again: %d %s", i, resp.StatusCode, body)
		}
	}
	status(t, "one byte more", 413)(r.uploadInto(t, bobSecret, requestID(1), "x"))
	status(t, "closed", 204)(r.closeRoom(t, aliceSecret, requestID(1)))
	if got := r.srv.blobs.room.used(); got != 0 {
		t.Errorf("%d bytes are counted in no room", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

// tryUpload reports whether the relay acknowledged the blob.
func (r *running) tryUpload(t *testing.T, secret, doc string) bool {
	return r.tryPut(t, doc, authFor(t, secret, "upload", sha(doc), nil))
}

func (r *running) tryPut(t *testing.T, doc, auth string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.addr+"/upload", strings.NewReader(doc))
	if err != nil {
		t.Error(err)
		return false
	}
	req.Header.Set("Authorization", auth)
	req.Header.Set("X-SHA-256", sha(doc))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusCreated
}

// serveApart serves a relay from a process of its own until kill is called.
func serveApart(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashDirEnv+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		if err := child.Process.Kill(); err != nil { // SIGKILL
			t.Error(err)
		}
		_ = child.Wait()
	})
	t.Cleanup(kill)
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(addr), kill
}

// publishUntilLost publishes without pause, calls kill after n OKs, and
// returns the ids of all that was acknowledged.
func publishUntilLost(t *testing.T, addr string, n int, kill func()) []string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	go func() {
		for i := 0; ; i++ {
			ev := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: fmt.Sprint("event ", i)}
			if ev.Sign(aliceSecret) != nil || ws.Write(ctx, websocket.MessageText, nip01.AppendEventMessage(nil, &ev)) != nil {
				return
			}
		}
	}()
	var ids []string
	for {
		_, doc, err := ws.Read(ctx)
		if err != nil {
			if len(ids) < n {
				t.Fatalf("only %d OKs: %v", len(ids), err)
			}
			return ids
		}
		m, err := nip01.ParseRelay(doc, nip01.Limits{})
		if err != nil || !m.Accepted {
			t.Fatalf("got %s", doc)
		}
		if ids = append(ids, m.EventID); len(ids) == n {
			kill()
		}
	}
}
