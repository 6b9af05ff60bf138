// Package trees brings the files of jobs that are too large for their requests: it says
// which are taken, tells the buyer when to send them, gets their chunks from the provider's
// own blob servers and holds them against the request.
package trees

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// Market is our own blob servers.
type Market interface {
	// OpenRoom opens a room for the buyer of a request on the servers, or prolongs its
	// life, and returns those that did.
	OpenRoom(ctx context.Context, requestID, buyer string, bytes int64, blobs int) (servers []string, err error)
	// CloseRoom removes the room of a request, with all that is in it.
	CloseRoom(ctx context.Context, requestID string) error
	// Fetch gets a blob from the first URL that has the right bytes.
	Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error)
}

// Config is what Trees needs. Without MaxBytes no trees are taken.
type Config struct {
	Publisher *publish.Publisher
	Log       *slog.Logger
	MaxBytes  int64    // of one tree, packed
	Servers   []string // of the market
	Dir       string   // for trees of open jobs, and of jobs that have ended
	Market    Market
}

const (
	// stall is how long the next chunk of a tree is waited for.
	stall = 5 * time.Minute
	// A chunk that is not there is looked for again after a pause, which doubles; the
	// buyer is told again that it is waited for.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	askAgain   = 15 * time.Second
	// roomLife is how long a blob server of ours keeps a room that nothing comes into.
	roomLife = 10 * time.Minute
	// closeTimeout bounds giving it back.
	closeTimeout = 10 * time.Second
	// keptSizes is how many of the largest trees are kept for further orders.
	keptSizes = 4
	// atOnce bounds the chunks in memory.
	atOnce = 2
	// maxHidden bounds an encrypted grant, in bytes.
	maxHidden = 2 << 10
)

// Trees has the trees of open jobs. It is safe for concurrent use.
type Trees struct {
	cfg    Config
	shelf  shelf
	places chan struct{}
}

// New makes a Trees.
func New(cfg Config) *Trees {
	return &Trees{
		cfg: cfg, places: make(chan struct{}, atOnce),
		shelf: shelf{dir: filepath.Join(cfg.Dir, "kept"), most: keptSizes * cfg.MaxBytes},
	}
}

// Admit says why the tree that a request names is not taken, as a [job.Refusal]; nil if it
// is, or the request names none. Nothing has been sent yet.
func (t *Trees) Admit(ctx context.Context, asked nostr.Event, typed *schemas.Request, mode receipts.Mode) error {
	m := openjob.ManifestOf(typed)
	if m == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return job.Refuse(job.CodeInvalidInput, "repo.tree: "+fmt.Sprintf(format, args...))
	}

	paysFirst := mode == receipts.ModeHold || mode == receipts.ModePrepay
	switch {
	case t.cfg.MaxBytes == 0:
		return refuse("this provider takes no files that are too large for a request")
	case m.Size > t.cfg.MaxBytes:
		return job.Refuse(job.CodeOverResources, fmt.Sprintf("repo.tree: it has %d bytes, at most %d are taken here", m.Size, t.cfg.MaxBytes))
	case !paysFirst && m.Stored() > tree.UnpaidBytes:
		return refuse("%d bytes are taken in mode hold or prepay only; in mode %s at most %d", m.Stored(), mode, tree.UnpaidBytes)
	}

	g, err := t.grant(ctx, asked)
	if err != nil {
		return refuse("%v", err)
	}
	if g.Commit() != m.Commitment {
		return refuse("its key is that of another tree")
	}
	return nil
}

// grant reads what the request tells us alone.
func (t *Trees) grant(ctx context.Context, asked nostr.Event) (tree.Grant, error) {
	tag := asked.Tags.Find(tree.GrantTag)
	if tag == nil || len(tag) != 2 || len(tag[1]) > maxHidden {
		return tree.Grant{}, fmt.Errorf("the tag %s with its key is missing", tree.GrantTag)
	}
	doc, err := t.cfg.Publisher.DecryptFrom(ctx, asked.PubKey, tag[1])
	if err != nil {
		return tree.Grant{}, fmt.Errorf("the tag %s is not encrypted to this key (NIP-44)", tree.GrantTag)
	}
	return tree.ParseGrant([]byte(doc))
}

// Bring waits until all chunks of the job's tree are on our blob servers, and returns a file
// with the packed tree, which it has held against the request; "" if the request names none.
// A tree that does not come, or is another, ends the job.
func (t *Trees) Bring(ctx context.Context, j *openjob.Job) (file string, err error) {
	m := j.Manifest()
	if m == nil {
		return "", nil
	}
	file = t.file(j.RequestID)
	if _, err := os.Stat(file); err == nil {
		return file, nil // of an earlier run
	}
	g, err := t.grant(ctx, j.Asked)
	if err != nil {
		return "", notTaken("%v", err)
	}
	if err := os.MkdirAll(t.cfg.Dir, 0o700); err != nil {
		return "", err
	}
	if t.shelf.take(j.Buyer, *m, g, file) {
		return file, nil
	}

	f, err := os.OpenFile(file+partial, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()

	wait := &waiting{Trees: t, job: j, manifest: m, grant: g}
	defer wait.close(context.WithoutCancel(ctx))
	for i := range m.Chunks {
		part, err := wait.chunk(ctx, i)
		if err != nil {
			return "", err
		}
		if _, err := f.Write(part); err != nil {
			return "", fmt.Errorf("keep a tree: %w", err)
		}
	}

	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := tree.Check(bufio.NewReader(f), *m, g); err != nil {
		return "", notTaken("%v", err)
	}
	if err := os.Rename(file+partial, file); err != nil {
		return "", err
	}
	if err := t.shelf.put(j.Buyer, g, file); err != nil {
		t.cfg.Log.Warn("keep the files of a job for the next", "request", j.RequestID, "err", err)
	}
	return file, nil
}

// notTaken ends a job whose tree is not what its request says. Nothing was run for it.
func notTaken(format string, args ...any) error {
	return openjob.GiveBack(job.StateFailed, job.CodeInvalidInput, "repo.tree: "+fmt.Sprintf(format, args...))
}

// partial ends the name of a tree that is not whole.
const partial = ".part"

func (t *Trees) file(requestID string) string { return filepath.Join(t.cfg.Dir, requestID) }

// Forget removes the tree of a job that has ended.
func (t *Trees) Forget(requestID string) {
	if t == nil || t.cfg.Dir == "" {
		return
	}
	for _, name := range []string{t.file(requestID), t.file(requestID) + partial} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.cfg.Log.Warn("remove the files of a job that has ended", "request", requestID, "err", err)
		}
	}
}

// Sweep removes the trees of all jobs but the open ones, which a crash left.
func (t *Trees) Sweep(open []string) {
	if t == nil || t.cfg.Dir == "" {
		return
	}
	found, err := os.ReadDir(t.cfg.Dir)
	if err != nil {
		return // there were none
	}
	for _, d := range found {
		if id := strings.TrimSuffix(d.Name(), partial); !d.IsDir() && !slices.Contains(open, id) {
			t.Forget(id)
		}
	}
}

// waiting is a job that waits for its tree.
type waiting struct {
	*Trees
	job      *openjob.Job
	manifest *tree.Manifest
	grant    tree.Grant
	asked    time.Time
	servers  []string // that have a room for it
}

// chunk waits for a chunk and opens it.
func (w *waiting) chunk(ctx context.Context, i int) ([]byte, error) {
	named, began := w.manifest.Chunks[i], time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		part, err := w.fetch(ctx, named)
		switch {
		case err == nil:
			return part, nil
		case errors.Is(err, tree.ErrChunk):
			return nil, notTaken("chunk %d of %d: %v", i+1, len(w.manifest.Chunks), err)
		case ctx.Err() == nil && time.Since(began) > stall:
			return nil, notTaken("chunk %d of %d did not come in %v: %v", i+1, len(w.manifest.Chunks), stall, err)
		}

		if time.Since(w.asked) > askAgain {
			w.asked = time.Now()
			if err := w.ask(ctx); err != nil {
				w.cfg.Log.Warn("no room for the files of a job yet", "request", w.job.RequestID, "err", err)
			}
		}
		select {
		case <-time.After(pause):
		case <-w.job.Cancel:
			return nil, openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, before the run")
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, openjob.GiveBack(job.StateFailed, job.CodeDeadline, fmt.Sprintf("chunk %d of %d of its files did not come in time", i+1, len(w.manifest.Chunks)))
			}
			return nil, ctx.Err()
		}
	}
}

// fetch gets a chunk from our own servers, and nobody else's: a buyer names no address.
func (w *waiting) fetch(ctx context.Context, named tree.Chunk) ([]byte, error) {
	select {
	case w.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.places }()

	urls := make([]string, len(w.cfg.Servers))
	for i, server := range w.cfg.Servers {
		urls[i] = strings.TrimRight(server, "/") + "/" + named.SHA256.Hex()
	}
	box, err := w.cfg.Market.Fetch(ctx, urls, named.SHA256, named.Size)
	if err != nil {
		return nil, err
	}
	return w.grant.Open(box, named)
}

// ask has our servers open a room for the chunks, or keep it open, and tells the buyer of
// it. What is told may be lost: it is told again.
func (w *waiting) ask(ctx context.Context) (err error) {
	m, to := w.manifest, w.job.To
	if w.servers, err = w.cfg.Market.OpenRoom(ctx, to.Request, to.Buyer, m.Stored(), len(m.Chunks)); err != nil {
		return err
	}
	room := append(nostr.Tag{
		tree.RoomTag, strconv.FormatInt(m.Stored(), 10), strconv.FormatInt(time.Now().Add(roomLife).Unix(), 10),
	}, w.servers...)
	w.cfg.Publisher.Offer(func(ctx context.Context) (nostr.Event, error) {
		return w.cfg.Publisher.FeedbackEvent(ctx, to, "partial", "", `{"stage":"waits for the files"}`, room)
	})
	return nil
}

// close gives the room back, once all came or nothing more is waited for. One that is left
// open lapses by itself.
func (w *waiting) close(ctx context.Context) {
	if w.servers == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, closeTimeout)
	defer stop()
	if err := w.cfg.Market.CloseRoom(ctx, w.job.RequestID); err != nil {
		w.cfg.Log.Warn("the room for the files of a job stays open until it lapses", "request", w.job.RequestID, "err", err)
	}
}
