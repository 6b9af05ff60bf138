package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// artifact is one file that a job left in /artifacts.
type artifact struct {
	Path   string // below /artifacts, with slashes
	Size   int64
	Digest hashing.Digest
	MIME   string

	content []byte // set if the store keeps artifacts in memory
}

// sendArtifacts lists and sends the artifacts. It runs inside the sandbox after
// every command has ended. Only regular files with a single name count; symlinks,
// devices and hard links are skipped, whatever they point to.
func sendArtifacts(p *plan, w *frameWriter) ([]artifactHeader, error) {
	root, err := os.OpenRoot(p.Artifacts)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	found, err := listArtifacts(root)
	if err != nil {
		return nil, &stageError{stageLimit, err}
	}

	for _, a := range found {
		if err := sendArtifact(root, a, w); err != nil {
			return nil, fmt.Errorf("send artifact %q: %w", a.Path, err)
		}
	}

	return found, nil
}

func listArtifacts(root *os.Root) ([]artifactHeader, error) {
	var found []artifactHeader
	var total int64
	err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if len(path) > maxArtifactPath {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !printable(path) {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Nlink != 1 {
			return nil
		}

		total += info.Size()
		if len(found) == maxArtifacts {
			return fmt.Errorf("artifact_limit: more than %d artifacts", maxArtifacts)
		}
		if total > maxArtifactBytes {
			return fmt.Errorf("artifact_limit: artifacts have more than %d bytes", maxArtifactBytes)
		}

		found = append(found, artifactHeader{Path: path, Size: info.Size()})
		return nil
	})
	return found, err
}

func printable(path string) bool {
	return utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func sendArtifact(root *os.Root, a artifactHeader, w *frameWriter) error {
	f, err := root.OpenFile(filepath.FromSlash(a.Path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := w.writeJSON(frameArtifact, a); err != nil {
		return err
	}

	buf := make([]byte, chunkSize)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := w.write(frameData, buf[:n]); err != nil {
				return err
			}
		}

		if errors.Is(err, io.EOF) {
			return w.write(frameData, nil)
		}
		if err != nil {
			return err
		}
	}
}

// artifactStore is the agent's side: it writes artifacts under the hash of the
// received bytes and enforces the limits itself.
type artifactStore struct {
	dir   string // empty: nothing is kept
	keep  bool   // keep artifacts in memory
	done  []artifact
	total int64

	open *openArtifact
}

type openArtifact struct {
	path string
	size int64
	head []byte
	sum  hash.Hash
	file *os.File // nil if nothing is written to disk
	kept []byte
}

// begin starts the next artifact.
func (s *artifactStore) begin(h artifactHeader) error {
	if s.open != nil {
		return errors.New("artifact begins inside an artifact")
	}
	if len(s.done) == maxArtifacts {
		return fmt.Errorf("more than %d artifacts", maxArtifacts)
	}
	if !fs.ValidPath(h.Path) || h.Path == "." || len(h.Path) > maxArtifactPath || !printable(h.Path) {
		return fmt.Errorf("artifact path %q is not valid", h.Path)
	}

	o := &openArtifact{path: h.Path, sum: sha256.New()}
	if s.dir != "" {
		f, err := os.CreateTemp(s.dir, ".incoming-*")
		if err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}
		o.file = f
	}

	s.open = o
	return nil
}

// data adds the next piece; an empty piece ends the artifact.
func (s *artifactStore) data(piece []byte) error {
	o := s.open
	if o == nil {
		return errors.New("artifact data without an artifact")
	}
	if len(piece) == 0 {
		return s.finish()
	}

	s.total += int64(len(piece))
	if s.total > maxArtifactBytes {
		return fmt.Errorf("artifacts have more than %d bytes", maxArtifactBytes)
	}
	o.size += int64(len(piece))
	o.sum.Write(piece)
	if s.keep {
		o.kept = append(o.kept, piece...)
	}
	if room := 512 - len(o.head); room > 0 {
		o.head = append(o.head, piece[:min(room, len(piece))]...)
	}
	if o.file != nil {
		if _, err := o.file.Write(piece); err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}
	}

	return nil
}

func (s *artifactStore) finish() error {
	o := s.open
	a := artifact{Path: o.path, Size: o.size, Digest: hashing.Digest(o.sum.Sum(nil)), MIME: mimeOf(o.head), content: o.kept}
	if o.file != nil {
		if err := o.file.Close(); err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}
		if err := os.Rename(o.file.Name(), filepath.Join(s.dir, a.Digest.Hex())); err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}
	}

	s.done, s.open = append(s.done, a), nil
	return nil
}

// abandon removes the file of an interrupted transfer.
func (s *artifactStore) abandon() {
	if s.open != nil && s.open.file != nil {
		s.open.file.Close()
		os.Remove(s.open.file.Name())
	}
	s.open = nil
}

// mimeOf distinguishes text from everything else; the buyer may know more.
func mimeOf(head []byte) string {
	whole := head[:len(head)-partialRune(head)] // the head may end inside a character
	if utf8.Valid(whole) && !bytes.ContainsRune(whole, 0) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
