package server

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowUpload announces a blob and sends its first byte.
func (r *running) slowUpload(t *testing.T, secret string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	auth := authFor(t, secret, "upload", sha("never finished"), nil)
	if _, err := fmt.Fprintf(conn, "PUT /upload HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 1000000\r\n\r\nx", auth); err != nil {
		t.Fatal(err)
	}
	return conn
}

// running waits until n uploads are.
func (us *uploads) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		us.mu.Lock()
		now := len(us.running)
		us.mu.Unlock()
		if now == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d uploads are running, want %d", now, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSlowUploadsOfOneKey: other keys go on at once.
func TestSlowUploadsOfOneKey(t *testing.T) {
	r := start(t, Config{})
	for range 32 {
		r.slowUpload(t, bobSecret)
	}
	r.srv.uploads.await(t, 8)
	if resp, body := r.upload(t, aliceSecret, "honest"); resp.StatusCode != http.StatusCreated {
		t.Errorf("another key's upload: %d %s", resp.StatusCode, body)
	}
	resp, body := r.upload(t, bobSecret, "a further one")
	if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusCreated { // on a slow machine
		t.Errorf("the same key: %d %s", resp.StatusCode, body)
	}
}

// TestSlowUploadsMakeRoom: slow ones of many keys, from the same address, give
// way to one that works.
func TestSlowUploadsMakeRoom(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxUploads: 4}})
	var slow []net.Conn
	for i := range 3 {
		slow = append(slow, r.slowUpload(t, fmt.Sprintf("%064x", i+1)))
		r.srv.uploads.await(t, i+1)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, body := r.upload(t, aliceSecret, "honest")
		if resp.StatusCode == http.StatusCreated {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	if err := slow[0].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(slow[0]) // the connection ends too
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("the one that gave way: %.80q %v", answer, err)
	}
	r.srv.uploads.await(t, 2)
}

// TestUploadPace follows the deadlines of an upload.
func TestUploadPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		us := newUploads(4)
		var deadline time.Time
		set := func(at time.Time) error { deadline = at; return nil }
		start := time.Now()
		u := &upload{key: "k", address: "a", end: start.Add(20 * time.Second), deadline: set, body: strings.NewReader(strings.Repeat("x", uploadStep))}
		if err := us.begin(u, start); err != nil || !deadline.Equal(start.Add(uploadStall)) {
			t.Fatalf("begun: %v, deadline %v", err, deadline)
		}
		time.Sleep(4 * time.Second)
		if _, err := io.CopyN(io.Discard, u, uploadStep-1); err != nil || !deadline.Equal(start.Add(uploadStall)) {
			t.Errorf("less than a step renews: %v", deadline)
		}
		if _, err := io.CopyN(io.Discard, u, 1); err != nil || !deadline.Equal(start.Add(19*time.Second)) {
			t.Errorf("a step does not renew: %v", deadline)
		}
		again := &upload{key: "k", address: "a", end: start.Add(time.Hour), deadline: set, body: timedOut{}}
		if err := us.begin(again, time.Now()); err != errUploadsBusy {
			t.Errorf("a second of the key while the first is busy: %v", err)
		}
		time.Sleep(uploadGrace)
		if err := us.begin(again, time.Now()); err != nil {
			t.Errorf("a second of the key while the first rests: %v", err)
		}
		if _, err := u.Read(make([]byte, 1)); err != errUploadSlow {
			t.Errorf("the first: %v", err)
		}
		if _, err := again.Read(make([]byte, 1)); err != errUploadSlow {
			t.Errorf("after a timeout: %v", err)
		}
		us.finish(u)
		us.finish(again)
		if len(us.running) > 0 {
			t.Error("uploads are left")
		}
	})
}

// TestUploadsAreShared: two hosts whose uploads all make progress hold every
// place, and others get their share all the same.
func TestUploadsAreShared(t *testing.T) {
	us := newUploads(4)
	now := time.Now()
	begin := func(address string) (*upload, error) {
		u := &upload{
			key: rand.Text(), address: address, end: now.Add(time.Hour),
			deadline: func(time.Time) error { return nil }, body: strings.NewReader("x"),
		}
		return u, us.begin(u, now)
	}
	held := map[*upload]bool{}
	for _, address := range []string{"a", "a", "a", "b"} {
		u, err := begin(address)
		if err != nil {
			t.Fatal(err)
		}
		held[u] = true
	}
	if _, err := begin("a"); err != errUploadsBusy {
		t.Errorf("a fourth of the first: %v", err)
	}
	for _, address := range []string{"c", "d"} {
		u, err := begin(address)
		if err != nil {
			t.Errorf("the first of %s: %v", address, err)
		}
		held[u] = true
	}
	ended := map[string]int{}
	for u := range held {
		if _, err := u.Read(make([]byte, 1)); err == errUploadsBusy {
			ended[u.address]++
		}
	}
	if len(ended) != 1 || ended["a"] != 2 || len(us.running) != 4 {
		t.Errorf("%d are running, ended: %v", len(us.running), ended)
	}
	for _, address := range []string{"c", "e"} { // each has one now
		if _, err := begin(address); err != errUploadsBusy {
			t.Errorf("one more of %s: %v", address, err)
		}
	}
}

type timedOut struct{}

func (timedOut) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
