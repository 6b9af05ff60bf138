package wasm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Bounds of the store. The key is bounded by the longest file name on Linux.
const (
	maxKeyBytes   = 120
	maxValueBytes = 64 << 10
	maxKeys       = 1000    // for each namespace
	maxStoreBytes = 8 << 20 // for each namespace, keys and values
	maxNamespace  = 100

	kvRead      = "read"
	kvReadWrite = "read-write"
)

// Errors of the store, in the order of their numbers in the ABI.
var (
	ErrKVDenied = errors.New("wasm: the namespace is not granted to this tool, or read-only")
	ErrKVKey    = errors.New("wasm: malformed key or value too large")
	ErrKVFull   = errors.New("wasm: the namespace is full")
)

// kv is the store agentos:kv/store (APX-2) from the view of one tool.
//
// A key that starts with "@name/" is in the shared namespace of that name, if it is
// granted; every other key is in the tool's own namespace. The host adds the tool's
// namespace itself; tools never see it. A key is 1 to 120 bytes of UTF-8 without
// control characters, a value at most 64 KiB; a namespace holds 1,000 keys and 8
// MiB. Values are bytes.
//
// A core module calls these functions, whose parameters and results are all i32:
//
//	get(key, key-len, buf, buf-len) -> n      n bytes is the value; it is in buf if it fits
//	put(key, key-len, value, value-len) -> 0
//	delete(key, key-len) -> 0                 also if there was none
//	list-keys(prefix, prefix-len, buf, buf-len) -> n    a JSON array of the keys, sorted, as for get
//
// Negative results: -1 no such key, -2 not granted, -3 malformed or too large,
// -4 full, -5 the store failed, -6 a pointer outside the memory.
//
// The store is a directory for each namespace with a file for each key. Several
// processes may use it: a write locks its namespace and takes effect atomically.
type kv struct {
	root   *os.Root // directory of all namespaces
	own    string
	shared map[string]string
}

// openKV opens the store in dir for the tool; it makes dir if it is missing.
func openKV(dir, tool string, grant KVGrant) (*kv, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &kv{root: root, own: "tool." + tool, shared: grant.Shared}, nil
}

func (kv *kv) close() error { return kv.root.Close() }

// place splits a key into the directory of its namespace and the key inside it.
func (kv *kv) place(key string, write bool) (dir, rest string, err error) {
	dir, rest = kv.own, key
	if name, ok := strings.CutPrefix(key, "@"); ok {
		name, rest, ok = strings.Cut(name, "/")
		mode := kv.shared[name]
		if !ok || mode == "" || write && mode != kvReadWrite {
			return "", "", ErrKVDenied
		}
		dir = "shared." + name
	}

	if len(rest) > maxKeyBytes || !utf8.ValidString(rest) || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", "", ErrKVKey
	}
	return dir, rest, nil
}

// Get returns the value; ok is false if the key does not exist.
func (kv *kv) Get(key string) (value []byte, ok bool, err error) {
	dir, rest, err := kv.place(key, false)
	if err != nil {
		return nil, false, err
	}
	if rest == "" {
		return nil, false, ErrKVKey
	}

	value, err = kv.root.ReadFile(dir + "/" + fileOf(rest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// Put sets the value of a key.
func (kv *kv) Put(key string, value []byte) error {
	return kv.change(key, func(ns *os.Root, key string) error {
		if len(value) > maxValueBytes {
			return ErrKVKey
		}
		if err := room(ns, key, len(value)); err != nil {
			return err
		}
		return replace(ns, fileOf(key), value)
	})
}

// Delete removes a key, if it exists.
func (kv *kv) Delete(key string) error {
	return kv.change(key, func(ns *os.Root, key string) error {
		if err := ns.Remove(fileOf(key)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Keys lists the keys that start with prefix, sorted. A shared namespace is listed
// with a prefix that starts with "@name/", which the returned keys have too.
func (kv *kv) Keys(prefix string) ([]string, error) {
	dir, rest, err := kv.place(prefix, false)
	if err != nil {
		return nil, err
	}
	ns, err := kv.root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}

	defer ns.Close()
	entries, err := keysOf(ns)
	if err != nil {
		return nil, err
	}

	front := strings.TrimSuffix(prefix, rest)
	keys := []string{}
	for key := range entries {
		if strings.HasPrefix(key, rest) {
			keys = append(keys, front+key)
		}
	}

	sort.Strings(keys)
	return keys, nil
}

// change calls fn with the lock of the key's namespace. The lock belongs to the
// open file, so a killed process leaves no lock.
func (kv *kv) change(key string, fn func(ns *os.Root, key string) error) error {
	dir, rest, err := kv.place(key, true)
	if err != nil {
		return err
	}
	if rest == "" {
		return ErrKVKey
	}
	if err := kv.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	ns, err := kv.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer ns.Close()

	lock, err := ns.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock namespace: %w", err)
	}
	return fn(ns, rest)
}

// room checks that there is room for a value of size bytes.
func room(ns *os.Root, key string, size int) error {
	entries, err := keysOf(ns)
	if err != nil {
		return err
	}
	delete(entries, key) // its old value will be replaced
	total := int64(len(key) + size)
	for k, n := range entries {
		total += int64(len(k)) + n
	}
	if len(entries) >= maxKeys || total > maxStoreBytes {
		return ErrKVFull
	}
	return nil
}

// keysOf maps the keys of a namespace to the sizes of their values.
func keysOf(ns *os.Root) (map[string]int64, error) {
	entries, err := fs.ReadDir(ns.FS(), ".")
	if err != nil {
		return nil, err
	}

	keys := map[string]int64{}
	for _, e := range entries {
		name, isKey := strings.CutPrefix(e.Name(), "k")
		key, err := hex.DecodeString(name)
		if !isKey || err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // deleted in the meantime
			continue
		}
		if err != nil {
			return nil, err
		}

		keys[string(key)] = info.Size()
	}

	return keys, nil
}

func fileOf(key string) string { return "k" + hex.EncodeToString([]byte(key)) }

// replace writes a file atomically: a reader sees the old content or the new. The
// caller holds the lock, so one temporary name is enough, and killed writers leave
// at most one file.
func replace(ns *os.Root, name string, value []byte) error {
	f, err := ns.OpenFile("new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return ns.Rename("new", name)
}
