package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestOperatorsBlobsStay: throwaway keys fill the room for blobs, and then again.
// The operator's own always fit, and stay; so do those of who has few.
func TestOperatorsBlobsStay(t *testing.T) {
	const total, size = 1 << 20, 60 << 10
	cfg := Config{
		Dir: t.TempDir(), Owners: []string{publicKey(t, aliceSecret)},
		Limits: Limits{BlobTotalBytes: total, MaxBlobBytes: 64 << 10},
	}
	r := start(t, cfg)
	next := 0
	flood := func() {
		t.Helper()
		for range 25 {
			next++
			doc := fmt.Sprint(next, strings.Repeat("x", size))
			if resp, body := r.upload(t, nostr.GeneratePrivateKey(), doc); resp.StatusCode != http.StatusCreated {
				t.Fatalf("a stranger's: %d %s", resp.StatusCode, body)
			}
			if n := r.srv.blobs.room.used(); n > total {
				t.Fatalf("%d bytes are taken", n)
			}
		}
	}
	r.upload(t, carolSecret, "carol's")
	flood()
	var mine []string
	for i := range 4 {
		mine = append(mine, fmt.Sprint("mine ", i, strings.Repeat("y", size)))
		if resp, body := r.upload(t, aliceSecret, mine[i]); resp.StatusCode != http.StatusCreated {
			t.Errorf("the operator's: %d %s", resp.StatusCode, body)
		}
	}
	flood()
	for _, doc := range append(mine, "carol's") {
		if resp, got := r.request(t, http.MethodGet, "/"+sha(doc), "", nil); resp.StatusCode != http.StatusOK || got != doc {
			t.Errorf("%.10q is gone: %d", doc, resp.StatusCode)
		}
	}

	counted := r.srv.blobs.room.stored
	r.stop()
	r = start(t, cfg)
	if got := r.srv.blobs.room.stored; got != counted || got.own != 4*(int64(len(mine[0]))+ownedCost) {
		t.Errorf("after a restart %+v is counted, before %+v", got, counted)
	}
}

// TestAnnouncedBlobsMakeNobodyGo: what was announced and has not come takes no room
// from what is there.
func TestAnnouncedBlobsMakeNobodyGo(t *testing.T) {
	r := start(t, Config{Limits: Limits{BlobTotalBytes: 1 << 20, BlobKeyBytes: 2 << 20, MaxBlobBytes: 1 << 20}})
	r.upload(t, carolSecret, "carol's")
	r.slowUpload(t, bobSecret) // 1 MB, of which one byte comes
	r.srv.uploads.await(t, 1)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.srv.blobs.room.mu.Lock()
		announced := r.srv.blobs.room.comingOf[publicKey(t, bobSecret)]
		r.srv.blobs.room.mu.Unlock()
		if announced > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the upload does not begin")
		}
	}
	if resp, body := r.upload(t, aliceSecret, strings.Repeat("alice's", 10_000)); resp.StatusCode != http.StatusCreated {
		t.Errorf("another's: %d %s", resp.StatusCode, body)
	}
	if resp, _ := r.request(t, http.MethodGet, "/"+sha("carol's"), "", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("what was there: %d", resp.StatusCode)
	}
}

// TestBlobsOfAKey: a stranger's key has its bound, and gets back what it deletes.
func TestBlobsOfAKey(t *testing.T) {
	r := start(t, Config{
		Owners: []string{publicKey(t, aliceSecret)}, Uploaders: []string{publicKey(t, bobSecret)},
		Limits: Limits{BlobKeyBytes: 2*ownedCost + 10},
	})
	put := func(secret, doc string, want int) {
		t.Helper()
		if resp, body := r.upload(t, secret, doc); resp.StatusCode != want {
			t.Errorf("%q: %d %s, want %d", doc, resp.StatusCode, body, want)
		}
	}
	put(bobSecret, "12345", http.StatusCreated)
	put(bobSecret, "678901", http.StatusInsufficientStorage)
	put(bobSecret, "67890", http.StatusCreated)
	put(bobSecret, "", http.StatusInsufficientStorage)
	put(aliceSecret, strings.Repeat("the operator's own ", 100), http.StatusCreated)
	put(carolSecret, "no uploader", http.StatusForbidden)
	hash := sha("12345")
	r.request(t, http.MethodDelete, "/"+hash, authFor(t, bobSecret, "delete", hash, nil), nil)
	put(bobSecret, "abcde", http.StatusCreated)
	if n := len(r.srv.blobs.room.comingOf); n > 0 {
		t.Errorf("%d reservations are left", n)
	}
}
