package tree

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/hashing"
)

// FuzzRead: whatever is taken for a tree stays in its folder, is within its bounds, and
// is always the same tree.
func FuzzRead(f *testing.F) {
	for _, parts := range hostile(f) {
		f.Add(parts)
	}
	parts, _ := pack(f, fstest.MapFS{"a/b": {Data: []byte("x")}, "l": {Data: []byte("a/b"), Mode: 0o777 | os.ModeSymlink}})
	f.Add(bytes.Join(parts, nil))

	f.Fuzz(func(t *testing.T, parts []byte) {
		const most = 1 << 20
		digest, entries, size, err := read(bytes.NewReader(parts), most)
		if err != nil {
			return
		}
		if entries > MaxEntries || size > most {
			t.Errorf("%d entries, %d bytes", entries, size)
		}
		if again, _, _, err := read(bytes.NewReader(parts), most); err != nil || again != digest {
			t.Errorf("read again it is %s, not %s: %v", again, digest, err)
		}
	})
}

// FuzzLink: a link that is taken leads nowhere out of a folder in which other links that
// were taken lie, as the file system resolves it.
func FuzzLink(f *testing.F) {
	for _, seed := range []string{"x", "..", "../../x", "m/../..", "m/x", "./m", "/", "m/..", "../m/../../.."} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		first, second = shortest(first), shortest(second)
		if checkLink("d/e/m", first) != nil || checkLink("l", second) != nil {
			return
		}
		top := t.TempDir()
		dir := filepath.Join(top, "tree")
		err := os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755)
		if err = errors.Join(err, os.Symlink(first, filepath.Join(dir, "d", "e", "m")), os.Symlink(second, filepath.Join(dir, "l"))); err != nil {
			return // a name that this file system does not take
		}
		for _, link := range []string{"d/e/m", "l"} {
			if at, err := filepath.EvalSymlinks(filepath.Join(dir, link)); err == nil && at != dir && !strings.HasPrefix(at, dir+"/") {
				t.Errorf("%s, with %q and %q, leads to %s", link, first, second, at)
			}
		}
	})
}

// FuzzGrant: what is taken for a grant has one spelling.
func FuzzGrant(f *testing.F) {
	f.Add(NewGrant([]byte("s"), provider, hashing.Bytes(nil)).Encode())
	f.Add([]byte(`{"digest":"","key":"","salt":""}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		g, err := ParseGrant(doc)
		if err != nil {
			return
		}
		if back, err := ParseGrant(g.Encode()); err != nil || back != g {
			t.Errorf("%q: %v", doc, err)
		}
	})
}
