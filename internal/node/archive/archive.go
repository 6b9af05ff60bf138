// Package archive keeps the whole data folder of a node as a backup, which is a folder: a
// checked copy of each database, made while it is in use, every other file that the node
// needs, and a list of them all.
package archive

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/wholefile"
)

const (
	listName = "backup.json"
	version  = 1
	// maxList bounds the list, in bytes: about 400,000 files.
	maxList = 64 << 20
	// markName is a file of a data folder that was restored. It names the run that did it.
	markName = "restored.json"
)

// ErrNoBackup is returned for what is not a whole backup.
var ErrNoBackup = errors.New("not a whole backup of a node")

// ErrLink is returned for a link in the data folder that leads out of it.
var ErrLink = errors.New("a link that leads out of the data folder")

// ErrNoSwap is returned where the data folder cannot change places with another one in one
// step: it is a mount, or its file system cannot.
var ErrNoSwap = errors.New("the data folder cannot be exchanged in one step")

// entry is one file of a backup.
type entry struct {
	Path     string      `json:"path"` // in the data folder
	Bytes    int64       `json:"bytes"`
	SHA256   string      `json:"sha256"`
	Mode     fs.FileMode `json:"mode"` // permissions
	Database bool        `json:"database,omitempty"`
	Link     string      `json:"link,omitempty"` // where a link leads; it has no bytes
}

// list is what a backup holds.
type list struct {
	Version int       `json:"version"`
	MadeAt  time.Time `json:"made_at"`
	Files   []entry   `json:"files"`
}

// Report says what was copied.
type Report struct {
	Databases, Files int
	Bytes            int64
}

func (l list) report() (r Report) {
	for _, e := range l.Files {
		r.Bytes += e.Bytes
		if e.Database {
			r.Databases++
		} else {
			r.Files++
		}
	}
	return r
}

// Write copies a data folder while it is in use into a new folder. The copy is whole and
// durable before the folder has its name. say hears of each database.
func Write(ctx context.Context, data, out string, say func(string)) (Report, error) {
	data, err := filepath.EvalSymlinks(data)
	if err != nil {
		return Report{}, fmt.Errorf("back up: %w", err)
	}
	found, err := look(data)
	if err != nil {
		return Report{}, fmt.Errorf("back up: %w", err)
	}

	part, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".*.partial") // mode 0700
	if err != nil {
		return Report{}, fmt.Errorf("back up: %w", err)
	}
	defer os.RemoveAll(part)

	l := list{Version: version, MadeAt: time.Now().UTC().Truncate(time.Second)}
	for _, e := range found {
		if e.Database {
			say(e.Path)
		}
		err := e.copy(ctx, data, part)
		if errors.Is(err, fs.ErrNotExist) { // the node has removed it meanwhile
			continue
		}
		if err != nil {
			return Report{}, fmt.Errorf("back up %s: %w", e.Path, err)
		}
		l.Files = append(l.Files, e)
	}

	text, err := json.Marshal(l)
	if err == nil {
		err = wholefile.Write(filepath.Join(part, listName), append(text, '\n'))
	}
	if err := cmp.Or(err, syncTree(part)); err != nil {
		return Report{}, fmt.Errorf("back up: %w", err)
	}
	// What has the name meanwhile stays.
	if err := unix.Renameat2(unix.AT_FDCWD, part, unix.AT_FDCWD, out, unix.RENAME_NOREPLACE); err != nil {
		return Report{}, fmt.Errorf("back up: %w", &os.LinkError{Op: "rename", Old: part, New: out, Err: err})
	}
	return l.report(), wholefile.SyncDir(filepath.Dir(out))
}

// look lists what is to be copied, in the order in which it must be: databases of the roles
// before those of their wallets, so that no wallet is older than what was done with it, and
// databases before the files that they name.
func look(data string) (found []entry, err error) {
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != data {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if isPassing(name) {
				return fs.SkipDir
			}
			return nil
		}

		e := entry{Path: name}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			if e.Link, err = os.Readlink(path); err != nil {
				return err
			}
		case name == markName:
			return nil
		case !d.Type().IsRegular() || isBeside(path): // a socket, or what a process keeps beside its database
			return nil
		default:
			if e.Database, _, err = sqlite.IsDatabase(path); errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
		}
		found = append(found, e)
		return nil
	})

	slices.SortStableFunc(found, func(a, b entry) int { return cmp.Compare(a.rank(), b.rank()) })
	return found, err
}

func (e entry) rank() int {
	switch {
	case filepath.Base(e.Path) == store.FileName && e.Database:
		return 0
	case e.Database:
		return 1
	}
	return 2
}

// staysInside reports that a link leads to a place in its data folder.
func (e entry) staysInside() bool {
	return !filepath.IsAbs(e.Link) && filepath.IsLocal(filepath.Join(filepath.Dir(e.Path), e.Link))
}

// isPassing reports folders of the data folder that mean nothing without the processes that
// use them, and databases that earlier restores put aside.
func isPassing(name string) bool {
	if strings.HasPrefix(filepath.Base(name), "before-restore-") {
		return true
	}
	switch name {
	case "provider/run", "buyer/run", "provider/runs", "buyer/leases", "relay/blobs/tmp":
		return true
	}
	return false
}

// isBeside reports the log, the locks and the half-made copies of a database.
func isBeside(path string) bool {
	for _, suffix := range []string{"-wal", "-shm", "-journal", ".lock", ".open", ".partial"} {
		if of, ok := strings.CutSuffix(path, suffix); ok {
			if is, _, err := sqlite.IsDatabase(of); err == nil && is || filepath.Base(of) == store.FileName {
				return true
			}
		}
	}
	return false
}

// copy copies the file from one folder into another, and notes what it found.
func (e *entry) copy(ctx context.Context, from, to string) error {
	in, out := filepath.Join(from, e.Path), filepath.Join(to, e.Path)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return err
	}
	if e.Link != "" {
		if !e.staysInside() {
			return fmt.Errorf("%w, to %s", ErrLink, e.Link)
		}
		return os.Symlink(e.Link, out)
	}

	if e.Database {
		if err := sqlite.Copy(ctx, in, out); err != nil {
			return err
		}
		e.Mode = 0o600
		return e.measure(out)
	}
	info, err := os.Stat(in)
	if err != nil {
		return err
	}
	e.Mode = info.Mode().Perm()
	if err := copyFile(in, out, e.Mode); err != nil {
		return err
	}
	return e.measure(out)
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}

// measure notes the size and hash of a file.
func (e *entry) measure(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	e.Bytes, err = io.Copy(sum, f)
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return err
}

// syncTree makes the names in a folder and those below it durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return wholefile.SyncDir(path)
	})
}

// read reads the list of a backup, and checks that all of it is there and whole.
func read(ctx context.Context, from string) (l list, err error) {
	f, err := os.Open(filepath.Join(from, listName))
	if err != nil {
		return l, fmt.Errorf("%s: %w: %w", from, ErrNoBackup, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err == nil && len(text) > maxList {
		err = fmt.Errorf("over %d bytes", maxList)
	}
	if err == nil {
		err = hashing.Unmarshal(text, &l)
	}
	if err == nil && l.Version != version {
		err = fmt.Errorf("version %d, where this program reads %d", l.Version, version)
	}
	if err != nil {
		return l, fmt.Errorf("%s: %w: %w", f.Name(), ErrNoBackup, err)
	}

	seen := map[string]bool{}
	for _, e := range l.Files {
		if seen[e.Path] {
			err = errors.New("listed twice")
		}
		seen[e.Path] = true
		if err := cmp.Or(err, ctx.Err(), e.check(ctx, from)); err != nil {
			return l, fmt.Errorf("%s: %q: %w: %w", from, e.Path, ErrNoBackup, err)
		}
	}
	return l, nil
}

// check refuses a file of a backup that is not as the list says, or whose place is outside.
func (e entry) check(ctx context.Context, from string) error {
	if !filepath.IsLocal(e.Path) || filepath.Clean(e.Path) != e.Path || e.Path == listName || e.Path == markName {
		return errors.New("not a place in a data folder")
	}
	path := filepath.Join(from, e.Path)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if e.Link != "" {
		if got, err := os.Readlink(path); err != nil || got != e.Link || !e.staysInside() {
			return cmp.Or(err, error(ErrLink))
		}
		return nil
	}
	if !info.Mode().IsRegular() || e.Mode != e.Mode.Perm() {
		return sqlite.ErrNoFile
	}

	now := e
	if err := now.measure(path); err != nil {
		return err
	}
	if now.Bytes != e.Bytes || now.SHA256 != e.SHA256 {
		return errors.New("it has changed since the backup was made")
	}
	if !e.Database {
		return nil
	}
	if err := sqlite.CheckCopy(ctx, path); err != nil {
		return err
	}
	side := store.Side(filepath.Dir(e.Path))
	if filepath.Base(e.Path) == store.FileName && (side == store.Provider || side == store.Buyer) {
		return store.CheckBackup(ctx, path, side)
	}
	return nil
}

// mark is the content of the file that says which run restored a data folder.
type mark struct {
	Run      string    `json:"run"`
	BackupOf time.Time `json:"backup_of"`
}

// restoring is a restore on its way. What it makes is in one folder beside the data folder,
// with the run's name and the new data folder; after the exchange it has the old one.
type restoring struct {
	data, from string
	side       string // the folder
	list       list
	run        string
	kept       string
}

// step is one part of a restore. A process that ends between two of them, or within one,
// leaves the old data folder or the new one, and the next run goes on from there.
type step struct {
	name string
	do   func(context.Context, *restoring) error
}

var steps = []step{
	{"clear", func(_ context.Context, r *restoring) error { return r.clear() }},
	{"copy", func(ctx context.Context, r *restoring) error { return r.copy(ctx) }},
	{"seal", func(_ context.Context, r *restoring) error { return r.seal() }},
	{"exchange", func(_ context.Context, r *restoring) error { return r.exchange() }},
	{"keep", func(_ context.Context, r *restoring) (err error) { r.kept, err = r.keep(r.run); return err }},
}

// Restore puts a backup in the place of a data folder, which nobody may use meanwhile, and
// says where what was there is; "" if there was nothing. The backup is checked first and
// stays as it is.
func Restore(ctx context.Context, data, from string) (kept string, made Report, err error) {
	if real, err := filepath.EvalSymlinks(data); err == nil {
		data = real
	}
	l, err := read(ctx, from)
	if err != nil {
		return "", made, fmt.Errorf("restore: %w", err)
	}
	release, err := hold(data)
	if err != nil {
		return "", made, err
	}
	defer func() { err = errors.Join(err, release()) }()

	r := &restoring{data: data, from: from, side: filepath.Clean(data) + ".restoring", list: l, run: rand.Text()}
	for _, s := range steps {
		if err := s.do(ctx, r); err != nil {
			return r.kept, made, fmt.Errorf("restore: %s: %w", s.name, err)
		}
	}
	return r.kept, l.report(), nil
}

// hold keeps the databases of a data folder from being opened; of one that somebody has
// open the error is a *[sqlite.LockedError].
func hold(data string) (release func() error, err error) {
	var held []func() error
	release = func() (err error) {
		for _, r := range held {
			err = errors.Join(err, r())
		}
		return err
	}
	found, err := look(data)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range found {
		if err == nil && e.Database {
			one, lockErr := sqlite.Hold(filepath.Join(data, e.Path))
			if err = lockErr; err == nil {
				held = append(held, one)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

func (r *restoring) fresh() string { return filepath.Join(r.side, "new") }

// clear ends what an earlier run has left: after its exchange that is the old data folder,
// before it a copy without worth.
func (r *restoring) clear() error {
	run, err := os.ReadFile(filepath.Join(r.side, "run"))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(r.side)
	}
	if err != nil {
		return err
	}

	// Where the data folder is gone, nobody can tell which of the two this is: it stays.
	_, gone := os.Lstat(r.data)
	text, err := os.ReadFile(filepath.Join(r.data, markName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var m mark
	if gone != nil || err == nil && hashing.Unmarshal(text, &m) == nil && m.Run == string(run) {
		_, err := r.keep(string(run))
		return err
	}
	return os.RemoveAll(r.side)
}

// copy makes the new data folder.
func (r *restoring) copy(ctx context.Context) error {
	if err := os.MkdirAll(r.fresh(), 0o700); err != nil {
		return err
	}
	for _, e := range r.list.Files {
		if err := e.putBack(ctx, r.from, r.fresh()); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return nil
}

// putBack copies a file of a backup into a data folder.
func (e entry) putBack(ctx context.Context, from, to string) error {
	in, out := filepath.Join(from, e.Path), filepath.Join(to, e.Path)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return err
	}
	if e.Link != "" {
		return os.Symlink(e.Link, out)
	}
	if err := copyFile(in, out, e.Mode); err != nil || !e.Database {
		return err
	}
	return sqlite.ToWAL(ctx, out)
}

// seal makes the new data folder durable, and names the run in it and beside it.
func (r *restoring) seal() error {
	text, err := json.Marshal(mark{Run: r.run, BackupOf: r.list.MadeAt})
	if err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(r.fresh(), markName), append(text, '\n')); err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(r.side, "run"), []byte(r.run)); err != nil {
		return err
	}
	return cmp.Or(syncTree(r.side), wholefile.SyncDir(filepath.Dir(r.side)))
}

// exchange has the two folders change places, in one step of the file system.
func (r *restoring) exchange() error {
	how := uint(unix.RENAME_EXCHANGE)
	if _, err := os.Lstat(r.data); errors.Is(err, fs.ErrNotExist) {
		how = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(unix.AT_FDCWD, r.fresh(), unix.AT_FDCWD, r.data, how)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoSwap, &os.LinkError{Op: "exchange", Old: r.fresh(), New: r.data, Err: err})
	}
	return cmp.Or(wholefile.SyncDir(filepath.Dir(r.data)), wholefile.SyncDir(r.side))
}

// keep gives the old data folder a name of its own, and ends the run.
func (r *restoring) keep(run string) (kept string, err error) {
	if _, err := os.Lstat(r.fresh()); err == nil {
		kept = filepath.Clean(r.data) + ".before-restore-" + run[:min(len(run), 8)]
		if err := os.Rename(r.fresh(), kept); err != nil {
			return "", err
		}
	}
	if err := wholefile.SyncDir(filepath.Dir(r.side)); err != nil {
		return kept, err
	}
	return kept, os.RemoveAll(r.side)
}
