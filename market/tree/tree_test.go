package tree

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

const provider = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"

// all visits everything in a folder.
func all(fsys fs.FS) Walk {
	return func(visit func(string, fs.DirEntry) error) error {
		return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == "." {
				return err
			}
			return visit(name, d)
		})
	}
}

// pack packs all of a folder.
func pack(t testing.TB, fsys fs.FS) (parts [][]byte, s Summary) {
	t.Helper()
	s, err := Pack(fsys, all(fsys), func(part []byte) error {
		parts = append(parts, slices.Clone(part))
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return parts, s
}

// seal encrypts the parts for the provider.
func seal(t testing.TB, secret string, parts [][]byte, s Summary) (m Manifest, g Grant, boxes [][]byte) {
	t.Helper()
	g = NewGrant([]byte(secret), provider, s.Digest)
	m = Manifest{Commitment: g.Commit(), Size: s.Size, Entries: s.Entries}
	for _, part := range parts {
		box, chunk, err := g.Seal(part)
		if err != nil {
			t.Fatal(err)
		}
		m.Chunks, boxes = append(m.Chunks, chunk), append(boxes, box)
	}
	return m, g, boxes
}

// incompressible is content of so many bytes, always the same for a seed.
func incompressible(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

func example() fstest.MapFS {
	return fstest.MapFS{
		"a.b":           {Data: []byte("before a/ by its bytes, after it as a path")},
		"a/empty":       {},
		"a/run":         {Data: []byte("#!/bin/sh\n")},
		"a/tool":        {Data: []byte("ELF"), Mode: 0o755},
		"link":          {Data: []byte("./a//run"), Mode: fs.ModeSymlink},
		"a/up":          {Data: []byte("../a.b"), Mode: fs.ModeSymlink},
		"big":           {Data: incompressible(1, PartBytes+100)},
		"ünïcode/x y\n": {Data: []byte("z")},
	}
}

// TestTreeTravels packs, encrypts, decrypts and checks a tree of several chunks.
func TestTreeTravels(t *testing.T) {
	parts, s := pack(t, example())
	m, g, boxes := seal(t, "secret", parts, s)
	if err := m.Check(); err != nil || len(m.Chunks) != 2 || m.Entries != 10 {
		t.Fatalf("manifest %+v: %v", m, err)
	}

	var back bytes.Buffer
	for i, box := range boxes {
		if len(box) > MaxChunkBytes || bytes.Contains(box, []byte("#!/bin/sh")) {
			t.Errorf("chunk %d has %d bytes, or is in the clear", i, len(box))
		}
		part, err := g.Open(box, m.Chunks[i])
		if err != nil {
			t.Fatal(err)
		}
		back.Write(part)
	}
	if err := Check(&back, m, g); err != nil {
		t.Error(err)
	}
}

// TestTreeIsAlwaysTheSame holds the digest of a tree, and what another time, another owner
// of the files and another salt change: nothing of the chunks.
func TestTreeIsAlwaysTheSame(t *testing.T) {
	small := fstest.MapFS{"a/b": {Data: []byte("hi")}, "a/x": {Data: []byte("#!"), Mode: 0o644}, "l": {Data: []byte("a"), Mode: fs.ModeSymlink}}
	lines := "lightwork/tree/v1\x00d a\x00" +
		"f 2 " + hashing.Bytes([]byte("hi")).Hex() + " a/b\x00x 2 " + hashing.Bytes([]byte("#!")).Hex() + " a/x\x00" +
		"l 1 " + hashing.Bytes([]byte("a")).Hex() + " l\x00"
	_, s := pack(t, small)
	if want := hashing.Bytes([]byte(lines)); s.Digest != want {
		t.Errorf("the digest is %s, want %s", s.Digest, want)
	}

	parts, s := pack(t, example())
	later := example()
	for _, f := range later {
		f.ModTime = time.Now()
	}
	again, t2 := pack(t, later)
	m1, g1, _ := seal(t, "secret", parts, s)
	m2, g2, _ := seal(t, "secret", again, t2)
	if s != t2 || g1.Key != g2.Key || !slices.Equal(m1.Chunks, m2.Chunks) {
		t.Error("the same files make other chunks")
	}
	if g1.Salt == g2.Salt || m1.Commitment == m2.Commitment {
		t.Error("two requests commit to a tree with one salt")
	}
	other, _, _ := seal(t, "another buyer", parts, s)
	if other.Chunks[0] == m1.Chunks[0] {
		t.Error("two buyers have the same chunk")
	}
	changed := example()
	changed["a/run"] = &fstest.MapFile{Data: []byte("#!/bin/ash\n")}
	if _, s := pack(t, changed); s.Digest == t2.Digest {
		t.Error("another tree has the same digest")
	}
}

// TestPackRefuses: what cannot travel is named, with the reason.
func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target string) fs.FS {
		return fstest.MapFS{"d/l": {Data: []byte(target), Mode: fs.ModeSymlink}}
	}
	for name, tt := range map[string]struct {
		fsys fs.FS
		says string
	}{
		"absolute link":      {link("/etc/passwd"), "leads out of the folder, to \"/etc/passwd\""},
		"link out":           {link("../../x"), "leads out of the folder"},
		"link down and up":   {link("e/../../d/x"), "not the shortest form"},
		"pipe":               {os.DirFS(dir), `"pipe": is a device, a socket or a pipe`},
		"long path":          {fstest.MapFS{strings.Repeat("abcdefg/", 200) + "x": {}}, "at most 1024 travel"},
		"long name":          {fstest.MapFS{strings.Repeat("n", 256): {}}, "at most 255 travel"},
		"not UTF-8":          {latin{}, "not UTF-8"},
		"nothing":            {fstest.MapFS{}, "no files"},
		"shrinks while read": {wrongSize{fstest.MapFS{"f": {Data: []byte("short")}}, 9}, "changed while it was read"},
		"grows while read":   {wrongSize{fstest.MapFS{"f": {Data: []byte("longer")}}, 3}, "changed while it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Pack(tt.fsys, all(tt.fsys), func([]byte) error { return nil }, nil)
			var bad *EntryError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an entry of which it says %q", err, tt.says)
			}
		})
	}

	crowd := func(visit func(string, fs.DirEntry) error) error {
		for i := range MaxEntries + 1 {
			if err := visit(fmt.Sprintf("f%06d", i), emptyFolder{}); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := Pack(fstest.MapFS{}, crowd, func([]byte) error { return nil }, nil)
	if most := (*LimitError)(nil); !errors.As(err, &most) || most.Most != MaxEntries {
		t.Errorf("too many entries: %v", err)
	}
	huge := wrongSize{fstest.MapFS{"f": {}}, MaxBytes + 1}
	_, err = Pack(huge, all(huge), func([]byte) error { return nil }, nil)
	if most := (*LimitError)(nil); !errors.As(err, &most) || most.Most != MaxBytes {
		t.Errorf("too many bytes: %v", err)
	}
}

// archive makes a tree of headers, as nobody of ours would.
func archive(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name string) *tar.Header { return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1} }

func folder(name string) *tar.Header { return &tar.Header{Name: name + "/", Typeflag: tar.TypeDir} }

func symlink(name, target string) *tar.Header {
	return &tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
}

// hostile are trees that must not be unpacked.
func hostile(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"absolute":              archive(t, file("/etc/passwd")),
		"up":                    archive(t, file("../x")),
		"up again":              archive(t, folder("a"), file("a/../../x")),
		"twice":                 archive(t, file("a"), file("a")),
		"out of order":          archive(t, file("b"), file("a")),
		"without folder":        archive(t, file("a/b")),
		"below a link":          archive(t, symlink("a", "."), file("a/b")),
		"link out":              archive(t, symlink("l", "../x")),
		"link to root":          archive(t, symlink("l", "/")),
		"link by way of a link": archive(t, folder("a"), folder("a/b"), symlink("a/b/l", "../.."), symlink("m", "a/b/l/../x")),
		"hard link":             archive(t, file("a"), &tar.Header{Name: "b", Linkname: "a", Typeflag: tar.TypeLink}),
		"device":                archive(t, &tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"pipe":                  archive(t, &tar.Header{Name: "p", Typeflag: tar.TypeFifo}),
		"further record":        archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeReg, Format: tar.FormatPAX, PAXRecords: map[string]string{"VENDOR.further": "x"}}),
		"something behind":      append(archive(t, file("a")), archive(t, file("b"))...),
		"no archive":            []byte("no gzip"),
		"cut short":             archive(t, file("a"))[:30],
		"longer than named":     archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1 << 20}),
	}
}

// TestCheckRefuses: no tree that leads out of its folder is taken, nor one that is another
// than the request commits to.
func TestCheckRefuses(t *testing.T) {
	for name, parts := range hostile(t) {
		if _, entries, size, err := read(bytes.NewReader(parts), 64<<10); err == nil {
			t.Errorf("%s: read as a tree of %d entries and %d bytes", name, entries, size)
		}
	}

	parts, s := pack(t, fstest.MapFS{"f": {Data: []byte("x")}})
	m, g, _ := seal(t, "secret", parts, s)
	for name, change := range map[string]func(m *Manifest, g *Grant){
		"another salt":    func(_ *Manifest, g *Grant) { g.Salt[0] ^= 1 },
		"another digest":  func(_ *Manifest, g *Grant) { g.Digest[0] ^= 1 },
		"more bytes":      func(m *Manifest, _ *Grant) { m.Size++ },
		"more entries":    func(m *Manifest, _ *Grant) { m.Entries++ },
		"another promise": func(m *Manifest, _ *Grant) { m.Commitment[0] ^= 1 },
	} {
		m, g := m, g
		change(&m, &g)
		if err := Check(bytes.NewReader(parts[0]), m, g); !errors.Is(err, ErrCommitment) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.Size--
	if err := Check(bytes.NewReader(parts[0]), m, g); !errors.As(err, new(*LimitError)) {
		t.Errorf("fewer bytes: %v", err)
	}
}

// TestOpenRefuses: a chunk is what the manifest names, in every bit, and opens with its key.
func TestOpenRefuses(t *testing.T) {
	g := NewGrant([]byte("secret"), provider, hashing.Bytes([]byte("tree")))
	box, chunk, err := g.Seal([]byte("part"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(box)
	flipped[len(flipped)-1] ^= 1
	stranger := NewGrant([]byte("other"), provider, g.Digest)
	for name, tt := range map[string]struct {
		g     Grant
		box   []byte
		named Chunk
	}{
		"a bit changed":             {g, flipped, chunk},
		"a bit changed and renamed": {g, flipped, Chunk{hashing.Bytes(flipped), chunk.Size}},
		"cut":                       {g, box[:len(box)-1], chunk},
		"empty":                     {g, nil, Chunk{hashing.Bytes(nil), 0}},
		"another size":              {g, box, Chunk{chunk.SHA256, chunk.Size + 1}},
		"another key":               {stranger, box, chunk},
	} {
		if part, err := tt.g.Open(tt.box, tt.named); !errors.Is(err, ErrChunk) {
			t.Errorf("%s: %q, %v", name, part, err)
		}
	}
}

// TestManifestIsBounded: sizes fit each other and the limits, before anything is fetched.
func TestManifestIsBounded(t *testing.T) {
	good := func() Manifest {
		return Manifest{Size: PartBytes + 1, Entries: 3, Chunks: []Chunk{{Size: MaxChunkBytes}, {Size: 100}}}
	}
	if m := good(); m.Check() != nil || m.Stored() != MaxChunkBytes+100 {
		t.Fatal(m.Check(), m.Stored())
	}
	for field, change := range map[string]func(m *Manifest){
		"size":           func(m *Manifest) { m.Size = MaxBytes + 1 },
		"entries":        func(m *Manifest) { m.Entries = MaxEntries + 1 },
		"chunks":         func(m *Manifest) { m.Chunks = m.Chunks[:1] },
		"chunks[1].size": func(m *Manifest) { m.Chunks[1].Size = MaxChunkBytes + 1 },
		"chunks[0].size": func(m *Manifest) { m.Chunks[0].Size = 40 },
	} {
		m := good()
		change(&m)
		var bad *ManifestError
		if err := m.Check(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestGrantIsStrict: a grant has one spelling, and is whole.
func TestGrantIsStrict(t *testing.T) {
	g := NewGrant([]byte("secret"), provider, hashing.Bytes([]byte("tree")))
	back, err := ParseGrant(g.Encode())
	if err != nil || back != g {
		t.Errorf("%v, %v", back, err)
	}
	if strings.Contains(g.Key.String(), "0") {
		t.Error("a key prints")
	}
	for name, doc := range map[string]string{
		"upper case": strings.Replace(string(g.Encode()), `"key":"`, `"key":"AB`, 1),
		"no key":     `{"digest":"` + g.Digest.String() + `","salt":"` + strings.Repeat("1", 64) + `"}`,
		"more":       strings.Replace(string(g.Encode()), `{`, `{"x":1,`, 1),
		"nothing":    ``,
	} {
		if _, err := ParseGrant([]byte(doc)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
