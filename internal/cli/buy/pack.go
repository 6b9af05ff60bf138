package buy

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/market/tree"
)

// Bounds of a folder that travels inside a request. A larger one travels as a tree.
const (
	packMax   = 40 << 10 // packed: a relay's event limit is 64 KiB
	packFile  = 8 << 20  // one file, and all of them, before packing
	packFiles = 2000
)

// errLarge: a folder does not fit a request.
var errLarge = errors.New("too large for a request")

// packed is a folder that travels inside a request.
type packed struct {
	Archive []byte
	files   int64
	bytes   int64 // of the files, before packing
}

// secretNames are files that hold secrets by custom; ordinaryNames are not,
// though they match.
func secretNames() []string {
	return []string{
		".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.macaroon", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
		".netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd", ".git-credentials", "credentials", "credentials.*",
	}
}

func ordinaryNames() []string {
	return []string{
		".env.example", ".env.sample", ".env.template", // and source code about credentials:
		"credentials.go", "credentials.py", "credentials.rs", "credentials.java", "credentials.kt", "credentials.rb", "credentials.php",
		"credentials.[jt]s", "credentials.[jt]sx", "credentials.cs", "credentials.[ch]", "credentials.[ch]pp", "credentials.md", "credentials.rst",
	}
}

func isSecretName(name string) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(p, strings.ToLower(name))
			return ok
		})
	}
	return matches(secretNames()) && !matches(ordinaryNames())
}

// findSecrets lists the files whose names say that they are not for strangers.
func findSecrets(fsys fs.FS, keep map[string]bool) ([]string, error) {
	var found []string
	err := walkPacked(fsys, keep, tree.MaxEntries, func(name string, d fs.DirEntry) error {
		if !d.IsDir() && isSecretName(d.Name()) {
			found = append(found, name)
		}
		return nil
	})
	return found, err
}

// walkPacked visits what PackFS packs: the files in keep and their folders, or, if that
// is nil, everything but .git.
func walkPacked(fsys fs.FS, keep map[string]bool, most int, visit func(name string, d fs.DirEntry) error) error {
	folders := map[string]bool{}
	for name := range keep {
		for at := path.Dir(name); at != "." && !folders[at]; at = path.Dir(at) {
			folders[at] = true
		}
	}

	files := 0
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && d.IsDir():
			return fs.SkipDir
		case name == ".", d.Name() == ".git": // a file in worktrees and submodules
			return nil
		case keep == nil, keep[name] && !d.IsDir(), folders[name] && d.IsDir():
		case d.IsDir():
			return fs.SkipDir
		default:
			return nil
		}

		if files++; files > most {
			return &tree.LimitError{What: "files, folders and links", Most: int64(most)}
		}
		return visit(name, d)
	})
}

// PackFS makes the same gzipped tar archive of the same files, always: folders,
// regular files and links in order, without times and owners, without .git. A
// file is executable if it is on disk, or begins with "#!". keep are the files that are
// packed, by their names; nil is all.
func PackFS(fsys fs.FS, keep map[string]bool) (*packed, error) {
	var buf bytes.Buffer
	gz, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(gz)
	p := &packed{}
	err = walkPacked(fsys, keep, tree.MaxEntries, func(name string, d fs.DirEntry) error {
		n, err := packEntry(tw, fsys, name, d)
		if !d.IsDir() {
			p.files, p.bytes = p.files+1, p.bytes+n
		}
		if err == nil && (p.files > packFiles || p.bytes > packFile || buf.Len() > packMax) {
			return errLarge
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(tw.Close(), gz.Close()); err != nil {
		return nil, err
	}
	if buf.Len() > packMax {
		return nil, errLarge
	}

	p.Archive = buf.Bytes()
	return p, nil
}

// packEntry returns how many bytes the file has.
func packEntry(tw *tar.Writer, fsys fs.FS, name string, d fs.DirEntry) (int64, error) {
	info, err := d.Info()
	if err == nil {
		err = tree.CheckName(name)
	}
	if err != nil {
		return 0, err
	}

	h := &tar.Header{Name: name, Mode: 0o644, Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
	var data []byte
	switch {
	case info.IsDir():
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
	case info.Mode().IsRegular():
		if info.Size() > packFile {
			return 0, errLarge
		}
		if data, err = fs.ReadFile(fsys, name); err != nil {
			return 0, err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		if info.Mode()&0o100 != 0 || bytes.HasPrefix(data, []byte("#!")) {
			h.Mode = 0o755
		}
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = fs.ReadLink(fsys, name); err != nil {
			return 0, err
		}
		if path.IsAbs(h.Linkname) || !fs.ValidPath(path.Join(path.Dir(name), h.Linkname)) {
			return 0, &tree.EntryError{Name: name, Reason: fmt.Sprintf("the link leads out of the folder, to %.200q", h.Linkname)}
		}
	default:
		return 0, &tree.EntryError{Name: name, Reason: "is a device, a socket or a pipe; only files, folders and links travel"}
	}

	if err := tw.WriteHeader(h); err != nil {
		return 0, err
	}
	_, err = tw.Write(data)
	return int64(len(data)), err
}
