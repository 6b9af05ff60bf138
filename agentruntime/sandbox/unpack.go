package sandbox

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// unpackSource fills the workspace from the archive that follows the plan. It runs
// inside the sandbox with the commands' rights, so that even a bug here has no
// effect outside.
func unpackSource(in io.Reader, p *plan) error {
	stream := &frameStream{r: in, kind: frameSource}
	err := asCommandUser(p, func() error {
		root, err := os.OpenRoot(p.MountPath)
		if err != nil {
			return err
		}
		defer root.Close()
		entries := maxSourceEntries
		if p.Entries > 0 {
			entries = int(p.Entries)
		}
		return untar(root, stream, entries, p.DiskBytes)
	})
	if err != nil {
		return err
	}

	// Read what follows the archive's end too, so that the writer can finish.
	_, err = io.Copy(io.Discard, stream)
	return err
}

// untar unpacks a tar.gz of regular files, directories and symlinks that stay
// inside root. It never overwrites anything, and counts bytes itself instead of
// trusting the sizes of entries.
func untar(root *os.Root, archive io.Reader, maxEntries int, maxBytes int64) error {
	zr, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("open archive: %w", err)
	}

	// Headers count too, so that an archive of headers only is also bounded.
	counted := &io.LimitedReader{R: zr, N: maxBytes + int64(maxEntries)*2048}
	tr := tar.NewReader(counted)
	var written int64
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if counted.N <= 0 {
			return fmt.Errorf("archive unpacks to more than %d bytes", maxBytes)
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if n >= maxEntries {
			return fmt.Errorf("archive has more than %d entries", maxEntries)
		}
		if h.Typeflag == tar.TypeXGlobalHeader { // git archive writes the commit id here
			continue
		}

		size, err := untarEntry(root, h, tr, maxBytes-written)
		if err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
		written += size
	}
}

func untarEntry(root *os.Root, h *tar.Header, r io.Reader, room int64) (int64, error) {
	name, err := entryName(h.Name)
	if err != nil {
		return 0, err
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
	}

	switch h.Typeflag {
	case tar.TypeDir:
		return 0, root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		if err := checkLink(name, h.Linkname); err != nil {
			return 0, err
		}
		return 0, root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		mode := os.FileMode(0o644)
		if h.Mode&0o100 != 0 {
			mode = 0o755
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return 0, err
		}
		n, err := copyAtMost(f, r, room)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		return n, err
	}

	return 0, fmt.Errorf("entry type %q is not a file, directory or symlink", h.Typeflag)
}

// entryName refuses absolute names and every ".." element, even one that would
// cancel out.
func entryName(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", errors.New("name is empty, absolute, too long or has a NUL")
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", errors.New("name leaves the archive")
		}
	}
	return path.Clean(name), nil
}

func checkLink(name, target string) error {
	if target == "" || strings.HasPrefix(target, "/") || strings.ContainsRune(target, 0) || len(target) > 4096 {
		return errors.New("link target is empty, absolute, too long or has a NUL")
	}
	at := path.Join(path.Dir(name), target)
	if at == ".." || strings.HasPrefix(at, "../") {
		return errors.New("link target leaves the archive")
	}
	return nil
}

var errTooLarge = errors.New("too large")

// copyAtMost copies r to its end. If r has more than limit bytes, it returns
// errTooLarge.
func copyAtMost(w io.Writer, r io.Reader, limit int64) (int64, error) {
	n, err := io.Copy(w, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = errTooLarge
	}
	return n, err
}

func copyFile(from io.Reader, to string, limit int64) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = copyAtMost(f, from, limit)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
