package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/hashing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// piece is one entry of a test archive.
type piece struct {
	name, body, link string
	kind             byte // a regular file when 0
	mode             int64
}

func tarOf(t testing.TB, pieces ...piece) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, p := range pieces {
		h := &tar.Header{Name: p.name, Linkname: p.link, Typeflag: p.kind, Mode: p.mode, Size: int64(len(p.body)), Uid: 1000, Uname: "me"}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(p.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func fileOf(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func store(t testing.TB) string { t.Helper(); return filepath.Join(t.TempDir(), "images") }

// sample is one small root file system as an archive.
func sample(t testing.TB) []byte {
	return tarOf(t,
		piece{name: "./", kind: tar.TypeDir, mode: 0o700},
		piece{name: "usr/bin/tool", body: "#!/bin/sh\n", mode: 0o4711},
		piece{name: "usr/bin/same", link: "usr/bin/tool", kind: tar.TypeLink},
		piece{name: "bin", link: "usr/bin", kind: tar.TypeSymlink},
		piece{name: "bin/through", body: "x", mode: 0o600},
		piece{name: "etc", kind: tar.TypeDir, mode: 0o2700},
		piece{name: "etc/shells", link: "/usr/bin/tool", kind: tar.TypeSymlink},
		piece{name: "dev/sda", kind: tar.TypeBlock},
		piece{name: "proc/x", body: "left out"},
	)
}

// sampleDir is the same tree as a directory.
func sampleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"usr/bin", "etc", "dev", "tmp/x"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"tool": 0o755, "same": 0o500} {
		if err := os.WriteFile(filepath.Join(dir, "usr/bin", name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "usr/bin/through"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"bin": "usr/bin", "etc/shells": "/usr/bin/tool"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "dev/initctl"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOneTreeHasOneDigest(t *testing.T) {
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write(sample(t))
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	var got []hashing.Digest
	for _, umask := range []int{0o022, 0o077, 0} {
		before := syscall.Umask(umask)
		for _, from := range []string{fileOf(t, sample(t)), fileOf(t, zipped.Bytes()), sampleDir(t)} {
			dir := store(t)
			d, err := Add(dir, from)
			if err != nil {
				t.Fatal(err)
			}
			root, err := Open(dir, d)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Add(store(t), root); err != nil || again != d {
				t.Errorf("its tree is %v, %v", again, err)
			}
			if info, err := os.Stat(root); err != nil || info.Mode().Perm() != modeDir {
				t.Errorf("the root is %v, %v", info, err)
			}
			got = append(got, d)
		}
		syscall.Umask(before)
	}
	if len(slices.Compact(got)) != 1 {
		t.Errorf("digests %v", got)
	}
	// Other nodes have it under this name; a change here is a new version.
	if want := "sha256:88e265f9bc2c6f38c7282afaff3cc043f624633a55c3e1bc6c2290ef8e16e36f"; got[0].String() != want {
		t.Errorf("digest %s, want %s", got[0], want)
	}
}

func TestAddKeepsNothingThatIsNotNamed(t *testing.T) {
	dir := store(t)
	d, err := Add(dir, fileOf(t, sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(dir, d)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || e.Type() != fs.ModeSymlink && info.Mode()&0o022 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if path != root && !info.ModTime().Equal(fileTime()) {
			t.Errorf("%s is of %v", path, info.ModTime())
		}
		names = append(names, strings.TrimPrefix(path, root))
		return nil
	})
	want := []string{"", "/bin", "/etc", "/etc/shells", "/usr", "/usr/bin", "/usr/bin/same", "/usr/bin/through", "/usr/bin/tool"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("the tree is %v, %v", names, err)
	}
}

func TestAddTwiceAndList(t *testing.T) {
	dir := store(t)
	if all, err := List(dir); err != nil || len(all) != 0 {
		t.Errorf("no store: %v %v", all, err)
	}
	first, err := Add(dir, fileOf(t, sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Add(dir, sampleDir(t))
	if err != nil || again != first {
		t.Errorf("again: %v %v", again, err)
	}
	// What a killed Add leaves goes with the next.
	left := filepath.Join(dir, incoming+"X/root/deep")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := Add(dir, fileOf(t, tarOf(t, piece{name: "only", body: "12345"})))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a half image is left")
	}
	all, err := List(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v %v", all, err)
	}
	for _, image := range all {
		if image.Digest == other && (image.Files != 1 || image.Bytes != 5 || image.Added.IsZero()) {
			t.Errorf("%+v", image)
		}
		if image.Digest == first && (image.Files != 8 || image.Bytes != 21) {
			t.Errorf("%+v", image)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the store is %v, %v", info.Mode(), err)
	}
}

func TestOpenWhatIsNotThere(t *testing.T) {
	if _, err := Open(store(t), hashing.Bytes([]byte("x"))); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("got %v", err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(root string) error{
		"manifest":  func(r string) error { return os.WriteFile(r+"/../manifest.json", []byte(`{"version":1}`), 0o644) },
		"root gone": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := store(t)
			d, err := Add(dir, fileOf(t, sample(t)))
			if err != nil {
				t.Fatal(err)
			}
			root, err := Open(dir, d)
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(root); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, d); !errors.Is(err, ErrDamaged) {
				t.Errorf("open: %v", err)
			}
		})
	}
}
