package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// openCipher hides nothing.
type openCipher struct{ publish.Cipher }

func (openCipher) NIP44Decrypt(_ context.Context, _, hidden string) (string, error) {
	return hidden, nil
}

type unsigning struct{}

func (unsigning) PublicKey() string                        { return strings.Repeat("a", 64) }
func (unsigning) Sign(context.Context, *nostr.Event) error { return errors.New("not here") }

type noRelays struct{ publish.Market }

func (noRelays) Relays() []string { return nil }

// server is a blob server with its rooms.
type server struct {
	mu             sync.Mutex
	blobs          map[string][]byte // by URL
	opened, closed int
	fetched        int
}

func (s *server) OpenRoom(_ context.Context, _, _ string, _ int64, _ int) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return []string{"http://blobs.example"}, nil
}

func (s *server) CloseRoom(context.Context, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *server) Fetch(_ context.Context, urls []string, d hashing.Digest, most int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[urls[0]]
	if !ok || int64(len(b)) > most || hashing.Bytes(b) != d {
		return nil, errors.New("no such blob")
	}
	s.fetched++
	return b, nil
}

func (s *server) put(box []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs["http://blobs.example/"+hashing.Bytes(box).Hex()] = box
}

// sent is a tree as a buyer sends it.
type sent struct {
	manifest tree.Manifest
	grant    tree.Grant
	boxes    [][]byte
	packed   []byte
}

func send(t *testing.T, files fstest.MapFS) sent {
	t.Helper()
	var parts [][]byte
	walk := func(visit func(string, fs.DirEntry) error) error {
		return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == "." {
				return err
			}
			return visit(name, d)
		})
	}
	s, err := tree.Pack(files, walk, func(part []byte) error { parts = append(parts, slices.Clone(part)); return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := sent{grant: tree.NewGrant([]byte("secret"), strings.Repeat("a", 64), s.Digest), packed: bytes.Join(parts, nil)}
	out.manifest = tree.Manifest{Commitment: out.grant.Commit(), Size: s.Size, Entries: s.Entries}
	for _, part := range parts {
		box, chunk, err := out.grant.Seal(part)
		if err != nil {
			t.Fatal(err)
		}
		out.boxes, out.manifest.Chunks = append(out.boxes, box), append(out.manifest.Chunks, chunk)
	}
	return out
}

func (s sent) job(id string) *openjob.Job {
	typed := &schemas.Request{Value: &schemas.SandboxRunRequest{Repo: schemas.SandboxRepo{Tree: &s.manifest}}}
	j := &openjob.Job{Job: job.Job{RequestID: id, Buyer: "b"}, Typed: typed, Cancel: make(chan struct{})}
	j.Asked.Tags = nostr.Tags{{tree.GrantTag, string(s.grant.Encode())}}
	j.To = publish.Addressee{Request: id, Buyer: "b"}
	return j
}

func newTrees(t *testing.T, s *server) *Trees {
	t.Helper()
	pub := publish.New(publish.Config{Signer: unsigning{}, SignLater: true, Market: noRelays{}, Cipher: openCipher{}, Log: slog.New(slog.DiscardHandler)})
	return New(Config{
		Publisher: pub, Log: slog.New(slog.DiscardHandler), MaxBytes: 64 << 20, Servers: []string{"http://blobs.example/"},
		Dir: filepath.Join(t.TempDir(), "trees"), Market: s,
	})
}

func small(text string) fstest.MapFS { return fstest.MapFS{"f": {Data: []byte(text)}} }

// TestTreeIsBroughtOnce: chunks are waited for in a room, which is given back; the buyer's
// next job with the same tree needs none, another buyer's does.
func TestTreeIsBroughtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{blobs: map[string][]byte{}}
		trees, files := newTrees(t, s), send(t, small("x"))
		go func() {
			time.Sleep(time.Minute)
			s.put(files.boxes[0])
		}()
		name, err := trees.Bring(t.Context(), files.job("one"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(name); !bytes.Equal(got, files.packed) {
			t.Error("the file is not the packed tree")
		}
		if s.opened < 2 || s.closed != 1 {
			t.Errorf("the room was opened or prolonged %d times, and closed %d times", s.opened, s.closed)
		}
		trees.Forget("one")
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after its job: %v", err)
		}

		again := send(t, small("x")) // with another salt
		s.opened, s.fetched = 0, 0
		if _, err := trees.Bring(t.Context(), again.job("two")); err != nil || s.opened+s.fetched > 0 {
			t.Errorf("the same tree again: %v, %d rooms, %d fetches", err, s.opened, s.fetched)
		}
		stranger := again.job("three")
		stranger.Buyer = "another"
		if _, err := trees.Bring(t.Context(), stranger); err != nil || s.fetched != 1 {
			t.Errorf("another buyer's: %v, %d fetches", err, s.fetched)
		}
		trees.Sweep([]string{"two"})
		left, _ := os.ReadDir(trees.cfg.Dir)
		if len(left) != 2 { // the tree of two, and the folder of what is kept
			t.Errorf("%d entries are left", len(left))
		}
	})
}

// TestTreeThatDoesNotCome: a job without its files ends, and nothing is charged; so does one
// whose buyer cancels it, and one whose time is over.
func TestTreeThatDoesNotCome(t *testing.T) {
	files := send(t, small("x"))
	other := send(t, small("y"))
	wrong := files
	wrong.manifest.Chunks = other.manifest.Chunks // of another tree, under another key
	lying := files
	lying.manifest.Entries++
	for name, tt := range map[string]struct {
		sent   sent
		put    [][]byte
		cancel bool
		limit  time.Duration
		state  job.State
		code   job.Code
		says   string
	}{
		"never":        {sent: files, state: job.StateFailed, code: job.CodeInvalidInput, says: "chunk 1 of 1 did not come in 5m0s"},
		"another tree": {sent: wrong, put: other.boxes, state: job.StateFailed, code: job.CodeInvalidInput, says: "the key does not open it"},
		"more named":   {sent: lying, put: files.boxes, state: job.StateFailed, code: job.CodeInvalidInput, says: "it has 1 files, folders and links, and 2 were named"},
		"canceled":     {sent: files, cancel: true, state: job.StateCanceled, code: job.CodeCanceled, says: "by the buyer"},
		"too late":     {sent: files, limit: time.Minute, state: job.StateFailed, code: job.CodeDeadline, says: "did not come in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{blobs: map[string][]byte{}}
				for _, box := range tt.put {
					s.put(box)
				}
				trees, j := newTrees(t, s), tt.sent.job("one")
				ctx := t.Context()
				if tt.limit > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.limit)
					defer stop()
				}
				if tt.cancel {
					close(j.Cancel)
				}
				_, err := trees.Bring(ctx, j)
				var end *openjob.End
				if !errors.As(err, &end) || end.State != tt.state || end.Reason.Code != tt.code || !end.Cancel || !strings.Contains(end.Reason.Detail, tt.says) {
					t.Errorf("got %v", err)
				}
				if s.opened > 0 && s.closed != 1 {
					t.Errorf("the room was closed %d times", s.closed)
				}
			})
		})
	}
}

// TestAdmit: what is not taken is refused before anything is sent or paid.
func TestAdmit(t *testing.T) {
	files := send(t, small("x"))
	large := files
	large.manifest.Size, large.manifest.Chunks = 3*tree.PartBytes, slices.Repeat([]tree.Chunk{{Size: tree.MaxChunkBytes}}, 3)
	huge := files
	huge.manifest.Size = 65 << 20
	for name, tt := range map[string]struct {
		sent  sent
		mode  receipts.Mode
		tag   string // instead of the grant
		limit int64
		code  job.Code
		says  string
	}{
		"fits":             {sent: files, mode: receipts.ModeFree},
		"large, held":      {sent: large, mode: receipts.ModeHold},
		"large, prepaid":   {sent: large, mode: receipts.ModePrepay},
		"large, postpaid":  {sent: large, mode: receipts.ModePostpay, code: job.CodeInvalidInput, says: "in mode hold or prepay only"},
		"large, free":      {sent: large, mode: receipts.ModeFree, code: job.CodeInvalidInput, says: "in mode free at most 16777216"},
		"beyond the limit": {sent: huge, mode: receipts.ModeHold, code: job.CodeOverResources, says: "at most 67108864 are taken here"},
		"none are taken":   {sent: files, mode: receipts.ModeHold, limit: -1, code: job.CodeInvalidInput, says: "takes no files"},
		"no key":           {sent: files, mode: receipts.ModeHold, tag: " ", code: job.CodeInvalidInput, says: "repo.tree"},
		"too long a key":   {sent: files, mode: receipts.ModeHold, tag: strings.Repeat("x", maxHidden+1), code: job.CodeInvalidInput, says: "is missing"},
		"another's key":    {sent: files, mode: receipts.ModeHold, tag: string(send(t, small("z")).grant.Encode()), code: job.CodeInvalidInput, says: "that of another tree"},
	} {
		t.Run(name, func(t *testing.T) {
			trees, j := newTrees(t, &server{}), tt.sent.job("one")
			if tt.limit < 0 {
				trees.cfg.MaxBytes = 0
			}
			if tt.tag != "" {
				j.Asked.Tags[0][1] = tt.tag
			}
			err := trees.Admit(t.Context(), j.Asked, j.Typed, tt.mode)
			var refused *job.Refusal
			if tt.code == "" && err == nil {
				return
			}
			if !errors.As(err, &refused) || refused.Reason.Code != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
