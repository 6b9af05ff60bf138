package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// Bounds for comparing a repository before and after a job. Process 1 keeps the
// texts in its own memory while the commands run.
const (
	treeFiles = 2 * maxSourceEntries
	treeBytes = 64 << 20  // read for each comparison
	textBytes = 128 << 10 // of a file whose changed lines are counted
	textsSum  = 2 << 20   // of all texts that are kept
)

var errTreeTooLarge = errors.New("the repository is too large to be compared")

// skippedDirs are folders without work of the job: history and caches.
var skippedDirs = []string{".git", "node_modules", "__pycache__", ".pytest_cache", ".cache"}

// treeFile is a regular file or a symlink of the repository.
type treeFile struct {
	size   int64
	digest hashing.Digest // for a symlink, of its target
	kind   byte           // 'f', 'x' executable, 'l' symlink
	text   []byte         // nil if the file is not a short text
}

// same reports whether the file is unchanged.
func (f treeFile) same(o treeFile) bool { return f.kind == o.kind && f.digest == o.digest }

// tree maps the paths of a repository to its files.
type tree map[string]treeFile

// readTree reads the files below a folder. The job may have filled it maliciously,
// so links are not followed, files that could block are not opened, and reads are
// bounded.
func readTree(dir string) (tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	t, read, texts := tree{}, int64(0), 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir() && name != ".":
			return fs.SkipDir // the job made it inaccessible
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skippedDirs, path.Base(name)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case len(t) == treeFiles || len(name) > maxArtifactPath:
			return errTreeTooLarge
		}

		f, ok, err := readTreeFile(root, name, d.Type(), treeBytes-read)
		if err != nil || !ok {
			return err
		}
		read += f.size
		if texts += len(f.text); texts > textsSum {
			texts, f.text = texts-len(f.text), nil
		}
		t[name] = f
		return nil
	})
	return t, err
}

// readTreeFile reads one file. It returns false for a file that is neither regular
// nor a symlink, or that cannot be opened.
func readTreeFile(root *os.Root, name string, mode fs.FileMode, room int64) (treeFile, bool, error) {
	if mode&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		return treeFile{kind: 'l', digest: hashing.Bytes([]byte(target))}, err == nil, nil
	}
	if !mode.IsRegular() {
		return treeFile{}, false, nil
	}

	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return treeFile{kind: '?'}, true, nil // the job made it inaccessible
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return treeFile{}, false, err
	}
	if info.Size() > room {
		return treeFile{}, false, errTreeTooLarge
	}

	head, sum := headBuffer{room: textBytes + 1}, sha256.New()
	size, err := io.Copy(io.MultiWriter(sum, &head), io.LimitReader(f, room))
	if err != nil {
		return treeFile{}, false, err
	}
	file := treeFile{size: size, digest: hashing.Digest(sum.Sum(nil)), kind: 'f'}
	if info.Mode()&0o100 != 0 {
		file.kind = 'x'
	}
	if b := head.head; len(b) <= textBytes && utf8.Valid(b) && !bytes.ContainsRune(b, 0) {
		file.text = slices.Clip(b)
	}
	return file, true, nil
}

// headBuffer keeps the first bytes that are written to it.
type headBuffer struct {
	head []byte
	room int
}

func (c *headBuffer) Write(p []byte) (int, error) {
	n := min(c.room, len(p))
	c.head = append(c.head, p[:n]...)
	c.room -= n
	return len(p), nil
}
