package server

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// Uploads and deletions of the same few blobs at once, some of them in one
// folder: in the end each blob has a row and a file or neither, and what is
// counted is what is there.
func TestBlobsAtOnce(t *testing.T) {
	const owners, times = 8, 30
	b := start(t, Config{Dir: t.TempDir()}).srv.blobs
	docs := inOneFolder("blob", 2)
	docs = append(docs, "another", "and another, longer than it")
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			owner := fmt.Sprintf("%064x", i+1)
			for j := range times {
				doc := docs[(i+j)%len(docs)]
				auth := blobAuth{pubkey: owner, hashes: []string{sha(doc)}}
				if _, err := b.put(t.Context(), auth, "text/plain", strings.NewReader(doc), int64(len(doc))); err != nil {
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
			want += n.size
		}
		if _, stat := os.Stat(b.path(sha(doc))); errors.Is(stat, os.ErrNotExist) != errors.Is(err, errBlobUnknown) {
			t.Errorf("%q: open %v, file %v", doc, err, stat)
		}
	}
	if got := b.taken(); got != want || want == 0 {
		t.Errorf("%d bytes counted, %d there", got, want)
	}
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
