package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Uploads and deletions of the same few blobs at once, small ones and two files
// of one folder: in the end each blob has a row and its bytes or neither, and
// what is counted is what is there.
func TestBlobsAtOnce(t *testing.T) {
	const owners, times = 8, 30
	b := start(t, Config{Dir: t.TempDir()}).srv.blobs
	docs := inOneFolder(strings.Repeat("long", smallBlob/4), 2)
	docs = append(docs, "another", "and another, longer than it")
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			owner := fmt.Sprintf("%064x", i+1)
			for j := range times {
				doc := docs[(i+j)%len(docs)]
				auth := blobAuth{pubkey: owner, hashes: []string{sha(doc)}}
				if _, _, err := b.put(t.Context(), auth, "", "text/plain", strings.NewReader(doc), int64(len(doc))); err != nil {
					t.Error(err)
				}
				if j == times-1 && i%2 == 0 {
					return // it stays
				}
				if err := b.remove(t.Context(), owner, sha(doc)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := int64(0)
	for _, doc := range docs {
		n, f, err := b.open(t.Context(), sha(doc))
		if err == nil {
			f.Close()
			want += n.size + b.owners(t, doc)*ownedCost
		}
		_, stat := os.Stat(b.path(sha(doc)))
		if file := stat == nil; file != (err == nil && len(doc) > smallBlob) || err != nil && !errors.Is(err, errBlobUnknown) {
			t.Errorf("%.20q: open %v, file %v", doc, err, stat)
		}
	}
	bodies, rows := b.count(t)
	if bodies != rows {
		t.Errorf("the bytes of %d small blobs for %d rows", bodies, rows)
	}
	if got := b.room.used(); got != want || want == 0 {
		t.Errorf("%d bytes counted, %d there", got, want)
	}
}

// owners is how many keys own a document.
func (b *blobStore) owners(t *testing.T, doc string) (n int64) {
	t.Helper()
	err := b.db.View(t.Context(), func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM blob_owners WHERE sha256 = ?", unhex(sha(doc))).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inOneFolder are n documents whose hashes begin alike.
func inOneFolder(prefix string, n int) (docs []string) {
	for i := 0; len(docs) < n; i++ {
		if doc := fmt.Sprint(prefix, i); len(docs) == 0 || sha(doc)[:2] == sha(docs[0])[:2] {
			docs = append(docs, doc)
		}
	}
	return docs
}

// count returns how many small blobs' bytes are stored, and how many rows say so.
func (b *blobStore) count(t *testing.T) (bodies, rows int) {
	t.Helper()
	err := b.db.View(t.Context(), func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT (SELECT count(*) FROM blob_bodies), (SELECT count(body) FROM blobs)").Scan(&bodies, &rows)
	})
	if err != nil {
		t.Fatal(err)
	}
	return bodies, rows
}

// Sizes around the bound, announced or not.
func TestSmallAndLargeBlobs(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{Dir: dir})
	docs := []string{"", "x", strings.Repeat("a", smallBlob), strings.Repeat("b", smallBlob+1), strings.Repeat("c", 3*smallBlob)}
	for i, doc := range docs {
		var body io.Reader = strings.NewReader(doc)
		if i%2 == 1 {
			body = io.MultiReader(body) // without an announced length
		}
		auth := authFor(t, aliceSecret, "upload", sha(doc), nil)
		if resp, text := r.request(t, http.MethodPut, "/upload", auth, body); resp.StatusCode != http.StatusCreated {
			t.Fatalf("%d bytes: %d %s", len(doc), resp.StatusCode, text)
		}
	}
	r.stop()
	r = start(t, Config{Dir: dir})
	for _, doc := range docs {
		if resp, got := r.request(t, http.MethodGet, "/"+sha(doc), "", nil); resp.StatusCode != http.StatusOK || got != doc {
			t.Errorf("%d bytes: %d, %d bytes", len(doc), resp.StatusCode, len(got))
		}
		_, err := os.Stat(r.srv.blobs.path(sha(doc)))
		if file := err == nil; file != (len(doc) > smallBlob) {
			t.Errorf("%d bytes: file: %v", len(doc), err)
		}
	}
}

// A small blob from before such were kept in the database is a file, and stays
// one until it comes again: then its file may be lost.
func TestSmallBlobThatIsAFile(t *testing.T) {
	const doc = "from before"
	r := start(t, Config{})
	b := r.srv.blobs
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Dir(b.path(sha(doc))), 0o700))
	must(os.WriteFile(b.path(sha(doc)), []byte(doc), 0o600))
	must(b.db.Update(t.Context(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec("INSERT INTO blobs (sha256, size, type, uploaded) VALUES (?, ?, 'text/plain', 1)", unhex(sha(doc)), len(doc))
		return err
	}))
	served := func() {
		t.Helper()
		if resp, got := r.request(t, http.MethodGet, "/"+sha(doc), "", nil); resp.StatusCode != http.StatusOK || got != doc {
			t.Errorf("%d %q", resp.StatusCode, got)
		}
	}
	served()
	if resp, body := r.upload(t, aliceSecret, doc); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	must(os.Rename(b.path(sha(doc)), b.path(sha(doc))+".lost"))
	served()
	must(os.Rename(b.path(sha(doc))+".lost", b.path(sha(doc))))
	must(b.remove(t.Context(), publicKey(t, aliceSecret), sha(doc)))
	if _, err := os.Stat(b.path(sha(doc))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	if bodies, _ := b.count(t); bodies > 0 {
		t.Error("the bytes are left")
	}
}

// TestOwnersTakeRoom: what costs nothing but signatures, blobs without a byte and
// more owners of one blob, takes room all the same, and gives it back.
func TestOwnersTakeRoom(t *testing.T) {
	const most = 3
	secrets := []string{nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey()}
	owners := []string{publicKey(t, aliceSecret)} // who make room for nobody
	for _, secret := range secrets {
		owners = append(owners, publicKey(t, secret))
	}
	r := start(t, Config{Owners: owners, Limits: Limits{MaxBlobBytes: 100, BlobTotalBytes: most*ownedCost + 99}})
	hash := sha("")
	for i := range most {
		if resp, body := r.upload(t, secrets[i], ""); resp.StatusCode/100 != 2 {
			t.Fatalf("owner %d: %d %s", i, resp.StatusCode, body)
		}
	}
	if resp, _ := r.upload(t, aliceSecret, ""); resp.StatusCode != http.StatusInsufficientStorage {
		t.Errorf("one owner more: %d", resp.StatusCode)
	}
	dir := r.srv.cfg.Dir
	r.stop()
	r = start(t, Config{Dir: dir, Owners: owners, Limits: Limits{MaxBlobBytes: 100, BlobTotalBytes: (most + 1) * ownedCost}})
	if got := r.srv.blobs.room.used(); got != most*ownedCost {
		t.Errorf("after a restart %d bytes are counted", got)
	}
	if resp, body := r.upload(t, aliceSecret, ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("the last owner: %d %s", resp.StatusCode, body)
	}
	resp, _ := r.request(t, http.MethodDelete, "/"+hash, authFor(t, aliceSecret, "delete", hash, nil), nil)
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("delete: %d", resp.StatusCode)
	}
	if got := r.srv.blobs.room.used(); got != most*ownedCost {
		t.Errorf("when one has gone %d bytes are counted", got)
	}
}
