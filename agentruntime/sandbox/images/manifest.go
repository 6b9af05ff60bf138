package images

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// manifest lists the entries of a tree. The digest of an image is the hash of its
// canonical JSON.
type manifest struct {
	Version int     `json:"version"`
	Entries []entry `json:"entries"` // sorted by path
}

// Kinds of an entry.
const (
	kindDir  = "dir"
	kindFile = "file"
	kindLink = "symlink"
)

// entry is one path below the root. Directories have mode 0755; links have no mode.
type entry struct {
	Path       string          `json:"path"`
	Kind       string          `json:"kind"`
	Executable bool            `json:"executable,omitempty"`
	Size       int64           `json:"size,omitempty"`
	SHA256     *hashing.Digest `json:"sha256,omitempty"`
	Target     string          `json:"target,omitempty"`
}

// The only modes and the only time in a stored tree. The time is not the beginning
// of 1970, which is before the first time that zip archives can store.
const (
	modeDir        = 0o755
	modeFile       = 0o644
	modeExecutable = 0o755
)

func fileTime() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func (m *manifest) canonical() ([]byte, error) {
	doc, err := hashing.CanonicalValue(m)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return doc, nil
}

// manifestBytes reads the file that should be the manifest of a digest.
func manifestBytes(dir string, d hashing.Digest) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, d.Hex(), manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotRegistered
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifestBytes))
}

func readManifest(dir string, d hashing.Digest) (*manifest, error) {
	doc, err := manifestBytes(dir, d)
	if err != nil {
		return nil, err
	}
	if hashing.Bytes(doc) != d {
		return nil, fmt.Errorf("%w: its manifest was changed", ErrDamaged)
	}

	var m manifest
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &m, nil
}

// readTree describes a stored tree and refuses kinds of files that no tree may
// contain.
func readTree(dir string) (*manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	m := &manifest{Version: 1, Entries: []entry{}}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		e, err := describeEntry(root, path, d)
		m.Entries = append(m.Entries, e)
		return err
	})
	slices.SortFunc(m.Entries, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	return m, err
}

func describeEntry(root *os.Root, path string, d fs.DirEntry) (entry, error) {
	info, err := d.Info()
	if err != nil {
		return entry{}, err
	}

	e := entry{Path: path}
	want := fs.FileMode(modeDir)
	switch d.Type() {
	case fs.ModeDir:
		e.Kind = kindDir
	case fs.ModeSymlink:
		e.Kind = kindLink
		if e.Target, err = root.Readlink(path); err != nil {
			return entry{}, err
		}
		if !utf8.ValidString(e.Target) {
			return entry{}, fmt.Errorf("%w: %q: its target is not UTF-8", ErrBadImage, path)
		}
		return e, nil
	case 0:
		e.Kind, e.Executable, want = kindFile, info.Mode()&0o100 != 0, modeFile
		if e.Executable {
			want = modeExecutable
		}
		if err := e.hash(root); err != nil {
			return entry{}, err
		}
	default:
		return entry{}, fmt.Errorf("%w: %q is a %s", ErrBadImage, path, d.Type())
	}

	if got := info.Mode() &^ fs.ModeDir; got != want {
		return entry{}, fmt.Errorf("%w: %q has mode %v", ErrBadImage, path, got)
	}
	return e, nil
}

func (e *entry) hash(root *os.Root) error {
	f, err := root.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()

	sum := sha256.New()
	if e.Size, err = io.Copy(sum, f); err != nil {
		return err
	}
	d := hashing.Digest(sum.Sum(nil))
	e.SHA256 = &d
	return nil
}
