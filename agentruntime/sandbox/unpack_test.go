package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/schemas"
)

// entry is one tar entry of a test archive, hostile or not.
type entry struct {
	name, body, link string
	kind             byte // a regular file when 0
	mode             int64
}

func tarGz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		h.Size = int64(len(e.body))
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unpackHere unpacks with small limits into a directory next to a canary.
func unpackHere(t testing.TB, archive []byte) (dir string, err error) {
	t.Helper()
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "canary"), []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(top, "workspace")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = untar(root, bytes.NewReader(archive), 20, 1000)
	if text, readErr := os.ReadFile(filepath.Join(top, "canary")); readErr != nil || string(text) != "alive" {
		t.Fatalf("unpacking reached outside: %q %v", text, readErr)
	}
	names, readErr := os.ReadDir(top)
	if readErr != nil || len(names) != 2 {
		t.Fatalf("unpacking left %v outside", names)
	}
	return dir, err
}

func TestUntar(t *testing.T) {
	dir, err := unpackHere(t, tarGz(
		t,
		entry{name: "./", kind: tar.TypeDir, mode: 0o700},
		entry{name: "a.txt", body: "A"},
		entry{name: "deep/er/run.sh", body: "#!", mode: 0o4755},
		entry{name: "deep/link", link: "../a.txt", kind: tar.TypeSymlink},
		entry{name: "deep", kind: tar.TypeDir, mode: 0o755},
	))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "deep/link")); err != nil || string(text) != "A" {
		t.Errorf("through the link: %q %v", text, err)
	}
	info, err := os.Stat(filepath.Join(dir, "deep/er/run.sh"))
	if err != nil || info.Mode()&0o111 == 0 || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func hostileArchives(t testing.TB) map[string][]byte {
	many := make([]entry, 21)
	for i := range many {
		many[i] = entry{name: fmt.Sprint("f", i)}
	}
	half := tarGz(t, entry{name: "a", body: strings.Repeat("x", 900)})
	return map[string][]byte{
		"absolute":            tarGz(t, entry{name: "/etc/x", body: "x"}),
		"dot dot":             tarGz(t, entry{name: "../canary", body: "x"}),
		"dot dot inside":      tarGz(t, entry{name: "a/../../canary", body: "x"}),
		"dot dot that cancel": tarGz(t, entry{name: "a/../b", body: "x"}),
		"absolute link":       tarGz(t, entry{name: "l", link: "/etc/passwd", kind: tar.TypeSymlink}),
		"link outside":        tarGz(t, entry{name: "l", link: "../canary", kind: tar.TypeSymlink}),
		"write through link": tarGz(t, entry{name: "d", kind: tar.TypeDir},
			entry{name: "d/l", link: "../..", kind: tar.TypeSymlink}, entry{name: "d/l/canary", body: "x"}),
		"link over link": tarGz(t, entry{name: "x/y", kind: tar.TypeDir}, entry{name: "l", link: "x/y", kind: tar.TypeSymlink},
			entry{name: "l/m", link: "../../..", kind: tar.TypeSymlink}, entry{name: "l/m/canary", body: "x"}),
		"overwrite":   tarGz(t, entry{name: "a", body: "x"}, entry{name: "a", body: "y"}),
		"file as dir": tarGz(t, entry{name: "a", body: "x"}, entry{name: "a/b", body: "y"}),
		"hard link":   tarGz(t, entry{name: "a", body: "x"}, entry{name: "h", link: "a", kind: tar.TypeLink}),
		"device":      tarGz(t, entry{name: "sda", kind: tar.TypeBlock}),
		"fifo":        tarGz(t, entry{name: "p", kind: tar.TypeFifo}),
		"too many":    tarGz(t, many...),
		"too large":   tarGz(t, entry{name: "a", body: strings.Repeat("x", 600)}, entry{name: "b", body: strings.Repeat("y", 600)}),
		"no gzip":     []byte("PK\x03\x04"),
		"cut off":     half[:len(half)/2],
		"empty":       nil,
		"bomb":        tarGz(t, entry{name: "zeros", body: strings.Repeat("\x00", 1<<20)}),
	}
}

func TestUntarRefusesHostileArchives(t *testing.T) {
	for name, archive := range hostileArchives(t) {
		t.Run(name, func(t *testing.T) {
			if dir, err := unpackHere(t, archive); err == nil {
				left, _ := os.ReadDir(dir)
				t.Errorf("unpacked to %v", left)
			}
		})
	}
}

func FuzzUntar(f *testing.F) {
	for _, archive := range hostileArchives(f) {
		f.Add(archive)
	}
	f.Add(tarGz(f, entry{name: "a/b", body: "x"}, entry{name: "a/l", link: "b", kind: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir, err := unpackHere(t, archive)
		if err != nil {
			return
		}
		var total int64
		walkErr := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch d.Type() {
			case fs.ModeDir, fs.ModeSymlink:
			case 0:
				info, err := d.Info()
				if err != nil {
					return err
				}
				total += info.Size()
			default:
				t.Errorf("unpacked a %v", d.Type())
			}
			return nil
		})
		if walkErr != nil || total > 1000 {
			t.Errorf("unpacked %d bytes, %v", total, walkErr)
		}
	})
}

// A hostile archive is the buyer's mistake, not this machine's.
func TestRunRefusesHostileSource(t *testing.T) {
	needsConfinement(t)
	for _, name := range []string{"dot dot", "device", "cut off"} {
		req := request(t, map[string]any{
			"repo":     map[string]any{"source": schemas.InlineArchive(hostileArchives(t)[name])},
			"commands": commands("true"),
		})
		_, err := Run(t.Context(), req.Value.(*schemas.SandboxRunRequest), testOptions(t))
		var re *RequestError
		if !errors.As(err, &re) || re.Field != "repo.source" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	noCgroupsLeft(t)
}

func TestSourceBelongsToTheCommands(t *testing.T) {
	archive := tarGz(t, entry{name: "dir/file", body: "1"}, entry{name: "tool", body: "#!/bin/sh\necho ran", mode: 0o755})
	r := run(t, request(t, map[string]any{
		"repo":     map[string]any{"source": schemas.InlineArchive(archive), "mount_path": "/home/me/project"},
		"commands": commands("pwd; ./tool; echo 2 >>dir/file; cat dir/file; touch dir/new; stat -c %u dir tool"),
	}), testOptions(t))
	if want := "/home/me/project\nran\n12\n65534\n65534\n"; r.Runs[0].StdoutPreview != want {
		t.Errorf("got %q, %q", r.Runs[0].StdoutPreview, r.Runs[0].StderrPreview)
	}
}

func TestCheckMountPath(t *testing.T) {
	for _, path := range []string{"/workspace", "/home/me/x", "/opt/build", "/usrlocal", "/mnt"} {
		if err := checkMountPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	bad := []string{
		"", "/", "workspace", "/a/", "/a//b", "/a/../b", "/..", "/usr", "/etc/x", "/tmp/x", "/artifacts", "/.disk", "/proc/1",
		"/a\nb", "/1/2/3/4/5/6/7/8/9", "/" + strings.Repeat("x", 300),
	}
	for _, path := range bad {
		if checkMountPath(path) == nil {
			t.Errorf("%q is accepted", path)
		}
	}
	if !slices.Contains(reservedDirs(), "lib64") {
		t.Error("lib64 may be covered")
	}
}
