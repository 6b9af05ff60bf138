package receipts_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/receipts"
)

func TestFolderRoundTrip(t *testing.T) {
	b := recipe{}.make().bundle
	again, err := reload(t, filesOf(b))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, again); diff != "" {
		t.Error(diff)
	}
}

func TestTarRoundTrip(t *testing.T) {
	b := recipe{}.make().bundle
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := b.WriteTar(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same bundle gives two archives")
	}
	again, err := receipts.ReadTar(&first, receipts.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, again); diff != "" {
		t.Error(diff)
	}
}

func TestWriteTarReportsErrors(t *testing.T) {
	if err := (recipe{}).make().bundle.WriteTar(brokenWriter{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// entry is one header of a hand-made archive.
type entry struct {
	name string
	kind byte
	data string
}

func archive(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.data)), Mode: 0o644}
		if e.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write([]byte(e.data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReadTar(t *testing.T) {
	hash := strings.Repeat("a", 64)
	good := entry{receipts.FileReceipt, tar.TypeReg, "{}"}
	for name, test := range map[string]struct {
		entries []entry
		ok      bool
	}{
		"at the top":         {[]entry{good, {"artifacts/" + hash, tar.TypeReg, "x"}}, true},
		"in a folder":        {[]entry{{"job/", tar.TypeDir, ""}, {"job/RECEIPT.json", tar.TypeReg, "{}"}, {"job/artifacts/" + hash, tar.TypeReg, "x"}}, true},
		"dot folder":         {[]entry{{"./", tar.TypeDir, ""}, {"./RECEIPT.json", tar.TypeReg, "{}"}, {"./artifacts/" + hash, tar.TypeReg, "x"}}, true},
		"artifact first":     {[]entry{{"job/artifacts/" + hash, tar.TypeReg, ""}, {"job/RECEIPT.json", tar.TypeReg, "{}"}}, true},
		"empty":              {nil, false},
		"no receipt":         {[]entry{{"QUOTE.json", tar.TypeReg, "{}"}}, false},
		"receipt twice":      {[]entry{good, good}, false},
		"artifact twice":     {[]entry{good, {"artifacts/" + hash, tar.TypeReg, ""}, {"artifacts/" + hash, tar.TypeReg, ""}}, false},
		"unknown file":       {[]entry{good, {"VALID.txt", tar.TypeReg, "yes"}}, false},
		"case":               {[]entry{good, {"quote.json", tar.TypeReg, "{}"}}, false},
		"two folders":        {[]entry{{"a/RECEIPT.json", tar.TypeReg, "{}"}, {"b/QUOTE.json", tar.TypeReg, "{}"}}, false},
		"symbolic link":      {[]entry{{"RECEIPT.json", tar.TypeSymlink, ""}}, false},
		"hard link":          {[]entry{good, {"QUOTE.json", tar.TypeLink, ""}}, false},
		"device":             {[]entry{good, {"QUOTE.json", tar.TypeChar, ""}}, false},
		"bad artifact name":  {[]entry{good, {"artifacts/readme", tar.TypeReg, ""}}, false},
		"upper-case name":    {[]entry{good, {"artifacts/" + strings.ToUpper(hash), tar.TypeReg, ""}}, false},
		"below artifacts":    {[]entry{good, {"artifacts/x/" + hash, tar.TypeReg, ""}}, false},
		"too many folders":   {append([]entry{good}, slices.Repeat([]entry{{"job/", tar.TypeDir, ""}}, 2000)...), false},
		"big document":       {[]entry{good, {"QUOTE.json", tar.TypeReg, strings.Repeat(" ", 1<<20+1)}}, false},
		"document of 1 MiB":  {[]entry{good, {"QUOTE.json", tar.TypeReg, strings.Repeat(" ", 1<<20)}}, true},
		"129 artifacts":      {append([]entry{good}, artifactEntries(129)...), false},
		"128 artifacts":      {append([]entry{good}, artifactEntries(128)...), true},
		"above the bundle":   {[]entry{{"../RECEIPT.json", tar.TypeReg, "{}"}}, true}, // a name only: nothing is written
		"nested a level off": {[]entry{good, {"job/QUOTE.json", tar.TypeReg, "{}"}}, false},
	} {
		b, err := receipts.ReadTar(bytes.NewReader(archive(t, test.entries)), receipts.Limits{})
		if (err == nil) != test.ok || (err != nil && !errors.Is(err, receipts.ErrBundle)) {
			t.Errorf("%s: %v", name, err)
		}
		if test.ok && err == nil && string(b.Receipt) != "{}" {
			t.Errorf("%s: receipt %q", name, b.Receipt)
		}
	}
	if _, err := receipts.ReadTar(strings.NewReader("no archive at all"), receipts.Limits{}); !errors.Is(err, receipts.ErrBundle) {
		t.Errorf("garbage: %v", err)
	}
}

func artifactEntries(n int) []entry {
	var list []entry
	for i := range n {
		list = append(list, entry{"artifacts/" + digest([]byte{byte(i)})[len("sha256:"):], tar.TypeReg, "x"})
	}
	return list
}

func TestLimits(t *testing.T) {
	files := filesOf(recipe{}.make().bundle)
	for name, limits := range map[string]receipts.Limits{
		"in all":    {TotalBytes: 4000},
		"one file":  {FileBytes: 100},
		"artifacts": {Artifacts: 1},
	} {
		if _, err := receipts.ReadBundle(folder(files), limits); !errors.Is(err, receipts.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadBundleRefuses(t *testing.T) {
	files := filesOf(recipe{}.make().bundle)
	for name, extra := range map[string]*fstest.MapFile{
		"README.md":          {Data: []byte("trust me"), Mode: 0o644},
		"QUOTE.json.bak":     {Data: []byte("{}"), Mode: 0o644},
		"artifacts/x":        {Data: []byte("{}"), Mode: 0o644},
		"more/RECEIPT.json":  {Data: []byte("{}"), Mode: 0o644},
		"RECEIPT.json":       {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink | 0o777},
		"REPLAY.jsonl":       {Mode: fs.ModeNamedPipe | 0o644},
		"artifacts/dir/file": {Data: []byte("x"), Mode: 0o644},
	} {
		fsys := folder(files)
		fsys[name] = extra
		if _, err := receipts.ReadBundle(fsys, receipts.Limits{}); !errors.Is(err, receipts.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := maps.Clone(files)
	delete(none, receipts.FileReceipt)
	if _, err := receipts.ReadBundle(folder(none), receipts.Limits{}); !errors.Is(err, receipts.ErrBundle) {
		t.Errorf("no receipt: %v", err)
	}
	if _, err := receipts.ReadBundle(absent{}, receipts.Limits{}); !errors.Is(err, receipts.ErrBundle) {
		t.Errorf("no folder: %v", err)
	}
}

type absent struct{}

func (absent) Open(string) (fs.File, error) { return nil, fs.ErrNotExist }

// TestTarEnds: behind the end of an archive nothing may be but zeros.
func TestTarEnds(t *testing.T) {
	good := archive(t, []entry{{receipts.FileReceipt, tar.TypeReg, "{}"}})
	if _, err := receipts.ReadTar(bytes.NewReader(append(good, make([]byte, 9000)...)), receipts.Limits{}); err != nil {
		t.Errorf("padding: %v", err)
	}
	if _, err := receipts.ReadTar(bytes.NewReader(append(append([]byte{}, good...), `{"another":"receipt"}`...)), receipts.Limits{}); !errors.Is(err, receipts.ErrBundle) {
		t.Errorf("data behind the end: %v", err)
	}
}
