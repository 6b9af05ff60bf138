package images

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// builder fills a tree. It never leaves the tree, overwrites nothing, and counts
// bytes while it copies.
type builder struct {
	root    *os.Root
	entries int
	bytes   int64
}

// providedDirs are replaced by the sandbox, whatever an image has there.
func providedDirs() []string { return []string{"dev", "proc", "sys", "tmp", "artifacts"} }

// fill copies a directory or unpacks an archive into an empty directory.
func fill(tree, from string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()

	if err := root.Chmod(".", modeDir); err != nil { // independent of the umask
		return err
	}
	b := &builder{root: root}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = b.copyTree(from)
	} else {
		err = b.unpack(from)
	}

	if err != nil {
		return err
	}
	return b.setTimes()
}

// name checks a path and reports whether the image keeps it.
func (b *builder) name(raw string) (name string, keep bool, err error) {
	if raw == "" || strings.HasPrefix(raw, "/") || len(raw) > maxName || strings.ContainsRune(raw, 0) || !utf8.ValidString(raw) {
		return "", false, fmt.Errorf("%w: the path %.100q is empty, absolute, too long or not UTF-8", ErrBadImage, raw)
	}

	for element := range strings.SplitSeq(raw, "/") {
		if element == ".." {
			return "", false, fmt.Errorf("%w: the path %.100q leaves the tree", ErrBadImage, raw)
		}
	}

	name = path.Clean(raw)
	first, _, _ := strings.Cut(name, "/")
	if name == "." || slices.Contains(providedDirs(), first) {
		return "", false, nil
	}
	if b.entries++; b.entries > maxEntries {
		return "", false, fmt.Errorf("%w: it has more than %d entries", ErrBadImage, maxEntries)
	}

	return name, true, nil
}

func (b *builder) dir(name string) error {
	if err := b.root.MkdirAll(name, modeDir); err != nil {
		return err
	}
	return b.root.Chmod(name, modeDir)
}

func (b *builder) link(name, target string) error {
	if target == "" || len(target) >= maxName || strings.ContainsRune(target, 0) {
		return fmt.Errorf("%w: %q has no usable target", ErrBadImage, name)
	}
	// The target may be anything: in the sandbox, the root of this tree is the
	// root.
	return b.root.Symlink(target, name)
}

func (b *builder) file(name string, mode fs.FileMode, r io.Reader) error {
	f, err := b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	room := maxBytes - b.bytes
	n, err := io.Copy(f, io.LimitReader(r, room+1))
	b.bytes += n
	if err == nil && n > room {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrBadImage, int64(maxBytes))
	}
	if err == nil {
		err = f.Chmod(keptMode(mode))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// keptMode keeps only whether a file is executable. It drops setuid and owners'
// rights, because no command owns the files.
func keptMode(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return modeExecutable
	}
	return modeFile
}

func (b *builder) unpack(archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()

	in := bufio.NewReaderSize(f, 1<<20)
	var r io.Reader = in
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if r, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%w: %w", ErrBadImage, err)
		}
	}

	// Headers count too, so that an archive of headers only is also bounded.
	tr := tar.NewReader(io.LimitReader(r, maxBytes+maxEntries*2048))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: read archive: %w", ErrBadImage, err)
		}
		if err := b.unpackEntry(h, tr); err != nil {
			return err
		}
	}
}

func (b *builder) unpackEntry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, keep, err := b.name(h.Name)
	if err != nil || !keep {
		return err
	}
	if name == "oci-layout" || name == "manifest.json" {
		return fmt.Errorf("%w: an archive of layers, as written by docker save; export the file system of a container instead (docker export)", ErrBadImage)
	}

	if parent := path.Dir(name); parent != "." {
		if err := b.parents(parent); err != nil {
			return err
		}
	}

	switch h.Typeflag {
	case tar.TypeDir:
		return b.dir(name)
	case tar.TypeSymlink:
		return b.link(name, h.Linkname)
	case tar.TypeReg:
		return b.file(name, h.FileInfo().Mode(), r)
	case tar.TypeLink:
		return b.hardLink(name, h.Linkname)
	}

	return fmt.Errorf("%w: %q is not a file, directory or link (type %q)", ErrBadImage, name, h.Typeflag)
}

// parents makes missing parent directories, with the right mode whatever the umask.
func (b *builder) parents(name string) error {
	if _, err := b.root.Stat(name); err == nil {
		return nil
	}
	if parent := path.Dir(name); parent != "." {
		if err := b.parents(parent); err != nil {
			return err
		}
	}
	return b.dir(name)
}

// hardLink copies a file of the archive to a second name.
func (b *builder) hardLink(name, target string) error {
	old, keep, err := b.name(target)
	if err != nil {
		return err
	}
	if !keep {
		return fmt.Errorf("%w: %q is a link to %q, which is not in the image", ErrBadImage, name, target)
	}

	info, err := b.root.Lstat(old)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %q is a hard link to %q, which is not a file", ErrBadImage, name, old)
	}

	return b.root.Link(old, name)
}

// copyTree copies a directory. Only the operator can name one, so changes during
// the copy do no harm, but the copy never leaves the directory.
func (b *builder) copyTree(dir string) error {
	source, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer source.Close()

	return fs.WalkDir(source.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, keep, err := b.name(p)
		switch {
		case err != nil:
			return err
		case !keep && p != "." && d.IsDir():
			return fs.SkipDir
		case !keep:
			return nil
		}
		return b.copyEntry(source, name, d)
	})
}

func (b *builder) copyEntry(source *os.Root, name string, d fs.DirEntry) error {
	switch d.Type() {
	case fs.ModeDir:
		return b.dir(name)
	case fs.ModeSymlink:
		target, err := source.Readlink(name)
		if err != nil {
			return err
		}
		return b.link(name, target)
	case 0:
		f, err := source.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return b.file(name, info.Mode(), f)
	}

	return fmt.Errorf("%w: %q is not a file, directory or link", ErrBadImage, name)
}

// setTimes must run last, because making a file changes the time of its directory.
func (b *builder) setTimes() error {
	when := fileTime()
	spec := unix.NsecToTimespec(when.UnixNano())
	return fs.WalkDir(b.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type() != fs.ModeSymlink {
			return b.root.Chtimes(p, when, when)
		}

		parent, err := b.root.Open(path.Dir(p))
		if err != nil {
			return err
		}
		defer parent.Close()

		return unix.UtimesNanoAt(int(parent.Fd()), path.Base(p), []unix.Timespec{spec, spec}, unix.AT_SYMLINK_NOFOLLOW)
	})
}
