package images

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hostile are archives that are no images, with what must be said of them;
// empty where the refusal is the system's.
func hostile(t testing.TB) map[string]struct {
	archive []byte
	said    string
} {
	whole := sample(t)
	type refused = struct {
		archive []byte
		said    string
	}
	return map[string]refused{
		"absolute":        {tarOf(t, piece{name: "/usr/x"}), "absolute"},
		"dot dot":         {tarOf(t, piece{name: "../x"}), "leaves"},
		"dot dot inside":  {tarOf(t, piece{name: "a/../../x"}), "leaves"},
		"not UTF-8":       {tarOf(t, piece{name: "a\xff"}), "UTF-8"},
		"long":            {tarOf(t, piece{name: strings.Repeat("a/", 3000) + "a"}), "too long"},
		"device":          {tarOf(t, piece{name: "var/sda", kind: tar.TypeBlock}), "not a file"},
		"character":       {tarOf(t, piece{name: "var/mem", kind: tar.TypeChar}), "not a file"},
		"fifo":            {tarOf(t, piece{name: "var/p", kind: tar.TypeFifo}), "not a file"},
		"through a link":  {tarOf(t, piece{name: "l", link: "../..", kind: tar.TypeSymlink}, piece{name: "l/x", body: "x"}), ""},
		"absolute link":   {tarOf(t, piece{name: "l", link: "/etc", kind: tar.TypeSymlink}, piece{name: "l/x", body: "x"}), ""},
		"link to outside": {tarOf(t, piece{name: "h", link: "../../canary", kind: tar.TypeLink}), "leaves"},
		"link to a link": {tarOf(t, piece{name: "l", link: "../../canary", kind: tar.TypeSymlink},
			piece{name: "h", link: "l", kind: tar.TypeLink}), "not a file"},
		"link to nothing": {tarOf(t, piece{name: "h", link: "x", kind: tar.TypeLink}), ""},
		"link to device":  {tarOf(t, piece{name: "h", link: "dev/null", kind: tar.TypeLink}), "not in the image"},
		"empty target":    {tarOf(t, piece{name: "l", kind: tar.TypeSymlink}), "target"},
		"bytes in target": {tarOf(t, piece{name: "l", link: "\xff", kind: tar.TypeSymlink}), "UTF-8"},
		"twice":           {tarOf(t, piece{name: "a", body: "x"}, piece{name: "a", body: "y"}), ""},
		"over a link":     {tarOf(t, piece{name: "a", link: "b", kind: tar.TypeSymlink}, piece{name: "a", body: "y"}), ""},
		"file as dir":     {tarOf(t, piece{name: "a", body: "x"}, piece{name: "a/b", body: "y"}), ""},
		"layers":          {tarOf(t, piece{name: "oci-layout", body: "{}"}), "docker export"},
		"layers, older":   {tarOf(t, piece{name: "manifest.json", body: "[]"}), "docker export"},
		"nothing":         {tarOf(t), "empty"},
		"nothing left":    {tarOf(t, piece{name: "dev/x"}), "empty"},
		"cut off":         {whole[:700], "read archive"},
		"no archive":      {[]byte(strings.Repeat("text ", 1000)), "read archive"},
		"no gzip":         {[]byte("\x1f\x8b not a zip, really"), "gzip"},
	}
}

func TestAddRefusesHostileArchives(t *testing.T) {
	for name, tt := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			dir := store(t)
			canary := filepath.Join(filepath.Dir(dir), "canary")
			if err := os.WriteFile(canary, []byte("alive"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Add(dir, fileOf(t, tt.archive))
			if err == nil || !strings.Contains(err.Error(), tt.said) || tt.said != "" && !errors.Is(err, ErrBadImage) {
				t.Errorf("got %v", err)
			}
			outside(t, dir, canary)
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != lockName {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

// outside fails if something beside the store changed.
func outside(t *testing.T, dir, canary string) {
	t.Helper()
	if text, err := os.ReadFile(canary); err != nil || string(text) != "alive" {
		t.Errorf("the canary is %q, %v", text, err)
	}
	if info, err := os.Stat(canary); err != nil || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the canary has another name: %v", err)
	}
	names, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(names) != 2 {
		t.Errorf("beside the store: %v, %v", names, err)
	}
}

func TestAddRefusesSpecialFiles(t *testing.T) {
	from := sampleDir(t)
	if err := syscall.Mkfifo(filepath.Join(from, "usr/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(store(t), from); !errors.Is(err, ErrBadImage) {
		t.Errorf("got %v", err)
	}
}

// The limits are too large to reach; what counts towards them is not.
func TestLimitsCount(t *testing.T) {
	tree := t.TempDir()
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b := &builder{root: root, bytes: maxBytes - 3}
	if err := b.file("fits", 0, strings.NewReader("123")); err != nil {
		t.Error(err)
	}
	if err := b.file("not", 0, strings.NewReader("1")); !errors.Is(err, ErrBadImage) {
		t.Errorf("one byte more: %v", err)
	}
	b = &builder{root: root, entries: maxEntries - 1}
	if _, _, err := b.name("last"); err != nil {
		t.Error(err)
	}
	if _, _, err := b.name("more"); !errors.Is(err, ErrBadImage) {
		t.Errorf("one entry more: %v", err)
	}
}

func FuzzAdd(f *testing.F) {
	for _, h := range hostile(f) {
		f.Add(h.archive)
	}
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := store(t)
		canary := filepath.Join(filepath.Dir(dir), "canary")
		if err := os.WriteFile(canary, []byte("alive"), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Add(dir, fileOf(t, archive))
		outside(t, dir, canary)
		if err != nil {
			return
		}
		root, err := Open(dir, d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Add(store(t), root); err != nil || again != d {
			t.Errorf("its tree is %v, %v", again, err)
		}
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
				t.Errorf("%s: %v", path, err)
			}
			return nil
		})
	})
}
