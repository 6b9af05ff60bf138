package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func store(t *testing.T, dir, tool string, shared map[string]string) *kv {
	t.Helper()
	kv, err := openKV(dir, tool, KVGrant{Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.close() })
	return kv
}

func TestStore(t *testing.T) {
	requirements.Covers(t, "APX-2")
	dir := filepath.Join(t.TempDir(), "kv")
	kv := store(t, dir, "a", nil)
	if _, ok, err := kv.Get("k"); ok || err != nil {
		t.Fatal("before the first put", ok, err)
	}
	for _, key := range []string{"k", "k/2", "../x", "ü", "."} {
		if err := errors.Join(kv.Put(key, []byte("old")), kv.Put(key, []byte("v"+key))); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := store(t, dir, "a", nil).Get(key); string(v) != "v"+key || !ok || err != nil {
			t.Fatalf("%q: %q %v %v", key, v, ok, err)
		}
	}
	if keys, err := kv.Keys("k"); err != nil || !slices.Equal(keys, []string{"k", "k/2"}) {
		t.Error(keys, err)
	}
	if err := errors.Join(kv.Delete("k"), kv.Delete("k")); err != nil {
		t.Error(err)
	}
	if _, ok, _ := kv.Get("k"); ok {
		t.Error("deleted, but still there")
	}
}

func TestStoreIsolation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	a := store(t, dir, "a", map[string]string{"s": "read-write", "t": "read"})
	b := store(t, dir, "b", map[string]string{"s": "read"})
	for _, key := range []string{"k", "@s/k"} {
		if err := a.Put(key, []byte("secret")); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := b.Get("k"); ok || err != nil {
		t.Error("b reads a's own key", err)
	}
	if v, ok, err := b.Get("@s/k"); string(v) != "secret" || !ok || err != nil {
		t.Error("shared", ok, err)
	}
	if keys, err := b.Keys("@s/"); err != nil || !slices.Equal(keys, []string{"@s/k"}) {
		t.Error(keys, err)
	}
	for name, err := range map[string]error{
		"write where b may read":   b.Put("@s/k", nil),
		"delete where b may read":  b.Delete("@s/k"),
		"write where a may read":   a.Put("@t/k", nil),
		"a namespace without name": a.Put("@", nil),
		"not granted":              a.Put("@other/k", nil),
		"a's own by its directory": b.Put("@../tool.a/k", nil),
	} {
		if !errors.Is(err, ErrKVDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := b.Get("@tool.a/k"); !errors.Is(err, ErrKVDenied) {
		t.Error(err)
	}
}

func TestStoreBounds(t *testing.T) {
	kv := store(t, filepath.Join(t.TempDir(), "kv"), "a", nil)
	for name, err := range map[string]error{
		"no key":        kv.Put("", nil),
		"long key":      kv.Put(strings.Repeat("k", maxKeyBytes+1), nil),
		"not UTF-8":     kv.Put("\xff", nil),
		"control":       kv.Put("a\nb", nil),
		"large value":   kv.Put("k", make([]byte, maxValueBytes+1)),
		"delete no key": kv.Delete(""),
	} {
		if !errors.Is(err, ErrKVKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var err error
	n := 0
	for ; err == nil; n++ {
		err = kv.Put(fmt.Sprint(n), make([]byte, maxValueBytes))
	}
	if limit := maxStoreBytes / maxValueBytes; !errors.Is(err, ErrKVFull) || n != limit {
		t.Errorf("full after %d values, want %d: %v", n, limit, err)
	}
	if err := kv.Put("0", make([]byte, 1)); err != nil {
		t.Errorf("a smaller value in a full store: %v", err)
	}
}

func TestStoreHoldsSoManyKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	kv := store(t, dir, "a", nil)
	if err := kv.Put("0", nil); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < maxKeys; i++ { // by hand: each put reads the whole directory
		if err := os.WriteFile(filepath.Join(dir, "tool.a", fileOf(fmt.Sprint(i))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := kv.Put("x", nil); !errors.Is(err, ErrKVFull) {
		t.Error(err)
	}
	if err := kv.Put("0", []byte("v")); err != nil {
		t.Error(err)
	}
}

func TestStoreIsSharedSafely(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kv")
	a, b := store(t, dir, "a", nil), store(t, dir, "a", nil)
	values := [][]byte{bytes.Repeat([]byte("a"), 10_000), bytes.Repeat([]byte("b"), 20_000)}
	if err := a.Put("k", values[0]); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, kv := range []*kv{a, b} {
		wg.Go(func() {
			for range 20 {
				if err := kv.Put("k", values[i]); err != nil {
					t.Error(err)
				}
				if v, _, err := kv.Get("k"); err != nil || !bytes.Equal(v, values[0]) && !bytes.Equal(v, values[1]) {
					t.Error("neither value:", len(v), err)
				}
			}
		})
	}
	wg.Wait()
}

// A link put into the store by another process does not lead out of it.
func TestStoreFollowsNoLinks(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(t.TempDir(), "kv")
	kv := store(t, dir, "a", nil)
	if err := os.Symlink(outside, filepath.Join(dir, "tool.a")); err != nil {
		t.Fatal(err)
	}
	if err := kv.Put("k", []byte("v")); err == nil {
		t.Error("written through a link")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Error(entries)
	}
}

func TestStoreFromAModule(t *testing.T) {
	i := func(name string, params int) Import {
		return Import{Module: kvInterface, Name: name, Params: bytes.Repeat([]byte{I32}, params), Results: []byte{I32}}
	}
	key := func(n int32) []byte { return Code(Const(OutputAt), Const(n)) } // "key"
	buf := func(n int32) []byte { return Code(Const(2048), Const(n)) }
	m := Reactor(Code(
		storeAt(64, Code(key(3), buf(100), Call(0))),                                 // get: none
		storeAt(68, Code(key(3), Const(InputAt), Const(5), Call(1))),                 // put
		storeAt(72, Code(key(3), buf(100), Call(0))),                                 // get: 5
		storeAt(76, Code(key(3), Const(3000), Const(2), Call(0))),                    // get: 5, too large for 2
		storeAt(80, Code(key(0), Const(4000), Const(50), Call(3))),                   // list
		storeAt(84, Code(key(3), Call(2))),                                           // delete
		storeAt(88, Code(key(3), Const(-8), Const(100), Call(0))),                    // get: none again
		storeAt(92, Code(Const(-8), Const(100), Const(0), Const(0), Call(1))),        // key outside
		storeAt(96, Code(key(3), Const(-8), Const(100), Call(1))),                    // value outside
		storeAt(100, Code(Const(OutputAt+3), Const(3), buf(0), Call(0))),             // "@s/"
		storeAt(104, Code(Const(OutputAt+3), Const(4), Const(0), Const(0), Call(1))), // not granted
		Result(64, 4000)), i("get", 4), i("put", 4), i("delete", 2), i("list-keys", 4))
	m.Data[OutputAt] = []byte("key@s/k")
	out := raw(t, prepare(t, witWith("agentos:kv/store@0.1.0"), m, ""), "value")
	want := []int32{kvNoKey, 0, 5, 5, 7, 0, kvNoKey, kvPointer, kvPointer, kvDenied, kvDenied}
	for n, w := range want {
		if got := int32(binary.LittleEndian.Uint32(out[4*n:])); got != w {
			t.Errorf("result %d is %d, want %d", n, got, w)
		}
	}
	if got := string(out[2048-64 : 2053-64]); got != "value" {
		t.Errorf("get gave %q", got)
	}
	if out[3000-64] != 0 {
		t.Error("a value that does not fit was written")
	}
	if got := string(out[4000-64 : 4007-64]); got != `["key"]` {
		t.Errorf("list gave %q", got)
	}
}
