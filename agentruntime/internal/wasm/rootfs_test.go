package wasm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	wasisys "github.com/tetratelabs/wazero/experimental/sys"

	. "github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const (
	oCreat, oTrunc = 1, 8        // path_open's oflags
	rights         = 1<<1 | 1<<6 // to read and to write
)

// opener opens the path that is its input with oflags, writes "new" if asked
// to, and gives: what path_open said, the bytes read, and those bytes.
func opener(oflags int32, write bool) Module {
	open := Import{Module: wasiModule, Name: "path_open", Results: []byte{I32}, Params: []byte{I32, I32, I32, I32, I32, I64, I64, I32, I32}}
	io, count, data := uint32(1), int32(72), int32(OutputAt)
	if write {
		io, count = 2, 76
	}
	m := Reactor(Code(
		storeAt(64, Const(-1)),
		storeAt(68, Code(Const(3), Const(1), Get(0), Get(1), Const(oflags), Const64(rights), Const64(rights), Const(0), Const(64), Call(0))),
		storeAt(16, Const(data)), storeAt(20, Const(3)),
		storeAt(80, Code(Const(64), Op(0x28, 2, 0), Const(16), Const(1), Const(count), Call(io))),
		Result(64, 8192)), open, wasi("fd_read", 4), wasi("fd_write", 4))
	m.Data[OutputAt] = []byte("new")
	return m
}

// reach runs opener and returns the error number and, if it read, the bytes.
func reach(t *testing.T, r *Runner, path string) (wasiErrno uint32, read string) {
	t.Helper()
	out := raw(t, r, path)
	n := binary.LittleEndian.Uint32(out[8:])
	return binary.LittleEndian.Uint32(out[4:]), string(out[OutputAt-64 : OutputAt-64+n])
}

// sandboxDir has a.txt, sub/b.txt and links; a secret lies beside it.
func sandboxDir(t *testing.T) (inside, secret string) {
	t.Helper()
	top := t.TempDir()
	inside, secret = filepath.Join(top, "in"), filepath.Join(top, "secret")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(inside, "sub"), 0o700))
	for path, text := range map[string]string{secret: "s3c", inside + "/a.txt": "aaa", inside + "/sub/b.txt": "bbb"} {
		must(os.WriteFile(path, []byte(text), 0o600))
	}
	for name, target := range map[string]string{
		"out": secret, "up": "../secret", "dir": "..", "ok": "a.txt", "deep": "sub/../../secret", "loop": "loop", "root": "/",
	} {
		must(os.Symlink(target, filepath.Join(inside, name)))
	}
	must(syscall.Mkfifo(filepath.Join(inside, "fifo"), 0o600))
	return inside, secret
}

const fsWIT = "wasi:filesystem/types@0.2.0"

func mount(dir string, readOnly bool) string {
	return fmt.Sprintf(`{"grants":{"fs":[{"host_path":%q,"guest_path":"/data","read_only":%v}]}}`, dir, readOnly)
}

func TestDirectoryIsScoped(t *testing.T) {
	requirements.Covers(t, "AP-13.2.1")
	inside, secret := sandboxDir(t)
	read := prepare(t, witWith(fsWIT), opener(0, false), mount(inside, false))
	for path, want := range map[string]string{"a.txt": "aaa", "sub/b.txt": "bbb", "./a.txt": "aaa", "ok": "aaa", "sub/../a.txt": "aaa"} {
		if e, got := reach(t, read, path); e != 0 || got != want {
			t.Errorf("%s: error %d, %q", path, e, got)
		}
	}
	write := prepare(t, witWith(fsWIT), opener(oCreat|oTrunc, true), mount(inside, false))
	escapes := []string{
		"../secret", "sub/../../secret", "..", secret, "/etc/passwd", "//etc/passwd", "out", "up", "dir/secret", "deep",
		"root" + secret, "root/etc/passwd", "loop", "fifo", "a.txt/../../secret", "\x00", "sub/\x00/../..",
	}
	for _, path := range escapes {
		if e, got := reach(t, read, path); e == 0 || got != "" {
			t.Errorf("reads %q: %q", path, got)
		}
		if e, _ := reach(t, write, path); e == 0 {
			t.Errorf("writes %q", path)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "s3c" {
		t.Errorf("the secret is %q now: %v", text, err)
	}
	if e, _ := reach(t, write, "fresh"); e != 0 {
		t.Error("cannot write inside:", e)
	}
	if text, _ := os.ReadFile(filepath.Join(inside, "fresh")); string(text) != "new" {
		t.Errorf("wrote %q", text)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	inside, _ := sandboxDir(t)
	for _, flags := range []int32{0, oCreat, oTrunc} {
		r := prepare(t, witWith(fsWIT), opener(flags, true), mount(inside, true))
		reach(t, r, "a.txt")
		reach(t, r, "fresh")
	}
	if text, _ := os.ReadFile(filepath.Join(inside, "a.txt")); string(text) != "aaa" {
		t.Errorf("changed to %q", text)
	}
	if _, err := os.Stat(filepath.Join(inside, "fresh")); err == nil {
		t.Error("made a file")
	}
}

func TestNoDirectoryWithoutAGrant(t *testing.T) {
	for _, path := range []string{"a.txt", "/", "etc/passwd"} {
		if e, _ := reach(t, prepare(t, witWith(fsWIT), opener(0, false), ""), path); e == 0 {
			t.Errorf("opened %s", path)
		}
	}
}

// scoped is a rootFS as a call gets it.
func scoped(t *testing.T, dir string, readOnly bool) *rootFS {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	budget := new(atomic.Int64)
	budget.Store(writeBudget)
	return &rootFS{root: root, readOnly: readOnly, budget: budget}
}

func TestEveryOperationIsScoped(t *testing.T) {
	inside, secret := sandboxDir(t)
	fsys := scoped(t, inside, false)
	for name, op := range map[string]func(path string) wasisys.Errno{
		"mkdir":    func(p string) wasisys.Errno { return fsys.Mkdir(p, 0) },
		"stat":     func(p string) wasisys.Errno { _, e := fsys.Stat(p); return e },
		"lstat":    func(p string) wasisys.Errno { _, e := fsys.Lstat(p); return e },
		"unlink":   fsys.Unlink,
		"rmdir":    fsys.Rmdir,
		"move in":  func(p string) wasisys.Errno { return fsys.Rename(p, "stolen") },
		"move out": func(p string) wasisys.Errno { return fsys.Rename("a.txt", p) },
		"link":     func(p string) wasisys.Errno { return fsys.Link(p, "l") },
		"symlink":  func(p string) wasisys.Errno { return fsys.Symlink(p, "l") },
		"chmod":    func(p string) wasisys.Errno { return fsys.Chmod(p, 0o777) },
		"utimens":  func(p string) wasisys.Errno { return fsys.Utimens(p, 0, 0) },
		"readlink": func(p string) wasisys.Errno { _, e := fsys.Readlink(p); return e },
	} {
		for _, path := range []string{"../secret", "dir/secret", "sub/../../secret", "root" + secret} {
			if e := op(path); e == 0 {
				t.Errorf("%s %s", name, path)
			}
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "s3c" {
		t.Errorf("the secret is %q now: %v", text, err)
	}
}

func TestDirectoryOperations(t *testing.T) {
	inside, _ := sandboxDir(t)
	fsys := scoped(t, inside, false)
	for name, e := range map[string]wasisys.Errno{
		"mkdir": fsys.Mkdir("d", 0), "rename": fsys.Rename("a.txt", "c.txt"),
		"unlink": fsys.Unlink("sub/b.txt"), "rmdir": fsys.Rmdir("sub"),
	} {
		if e != 0 {
			t.Errorf("%s: %v", name, e)
		}
	}
	if e := fsys.Unlink("d"); e != wasisys.EISDIR {
		t.Error("unlink of a directory:", e)
	}
	if e := fsys.Rmdir("c.txt"); e != wasisys.ENOTDIR {
		t.Error("rmdir of a file:", e)
	}
	dir, e := fsys.OpenFile(".", wasisys.O_DIRECTORY, 0)
	if e != 0 {
		t.Fatal(e)
	}
	defer dir.Close()
	for range 2 { // a rewind gives the same again
		var names []string
		for {
			some, e := dir.Readdir(3)
			if e != 0 {
				t.Fatal(e)
			}
			if len(some) == 0 {
				break
			}
			for _, d := range some {
				names = append(names, d.Name)
			}
		}
		if got := strings.Join(names, " "); got != "c.txt d deep dir fifo loop ok out root up" {
			t.Error(got)
		}
		if _, e := dir.Seek(0, 0); e != 0 {
			t.Fatal(e)
		}
	}
	st, e := fsys.Stat("c.txt")
	if e != 0 || st.Size != 3 || st.Mtim != 0 || st.Ino != 0 {
		t.Error(st, e)
	}
}

func TestWritesAreBounded(t *testing.T) {
	fsys := scoped(t, t.TempDir(), false)
	f, e := fsys.OpenFile("f", wasisys.O_CREAT|wasisys.O_RDWR, 0)
	if e != 0 {
		t.Fatal(e)
	}
	defer f.Close()
	if e := f.Truncate(writeBudget + 1); e == 0 {
		t.Error("a file larger than the budget")
	}
	fsys.budget.Store(10)
	if _, e := f.Write(bytes.Repeat([]byte("x"), 8)); e != 0 {
		t.Error(e)
	}
	if _, e := f.Pwrite([]byte("xxx"), 0); e == 0 {
		t.Error("more than the budget")
	}
	fsys.budget.Store(blockBytes)
	if _, e := fsys.OpenFile("g", wasisys.O_CREAT|wasisys.O_RDWR, 0); e == 0 {
		// The file of this one is closed by its test directory's end only.
		if e := fsys.Mkdir("h", 0); e == 0 {
			t.Error("empty directories are free")
		}
	}
}

func TestFileOperations(t *testing.T) {
	inside, _ := sandboxDir(t)
	fsys := scoped(t, inside, false)
	f, e := fsys.OpenFile("a.txt", wasisys.O_RDWR|wasisys.O_APPEND, 0)
	if e != 0 {
		t.Fatal(e)
	}
	defer f.Close()
	if _, e := f.Write([]byte("zz")); e != 0 || !f.IsAppend() {
		t.Error(e)
	}
	if e := f.SetAppend(false); e != 0 {
		t.Error(e)
	}
	if pos, e := f.Seek(1, 0); e != 0 || pos != 1 {
		t.Error(pos, e)
	}
	if _, e := f.Write([]byte("b")); e != 0 {
		t.Error(e)
	}
	buf := make([]byte, 10)
	if n, e := f.Pread(buf, 0); e != 0 || string(buf[:n]) != "abazz" {
		t.Errorf("%q %v", buf[:n], e)
	}
	if n, e := f.Pread(buf, 100); e != 0 || n != 0 {
		t.Error("behind the end:", n, e)
	}
}
