package receipts

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
)

// plainBundle has a file of every size around a block.
func plainBundle() *Bundle {
	b := &Bundle{Receipt: []byte("{}"), Quote: []byte{}, Artifacts: map[string][]byte{}}
	for i, n := range []int{0, 1, 511, 512, 513, 70000} {
		b.Artifacts[strings.Repeat(string(rune('a'+i)), 64)] = bytes.Repeat([]byte{byte(i + 1)}, n)
	}
	return b
}

func TestWrittenArchiveIsPlain(t *testing.T) {
	var out bytes.Buffer
	if err := plainBundle().WriteTar(&out); err != nil {
		t.Fatal(err)
	}
	if l := newLoader(Limits{}); !l.addPlain(out.Bytes()) {
		t.Error("WriteTar's own form goes the long way")
	}
}

// Whatever byte of an archive is another, both ways of reading it come to the
// same bundle or the same error.
func TestPlainArchiveReadsAsAny(t *testing.T) {
	b := plainBundle()
	delete(b.Artifacts, strings.Repeat("f", 64))
	var out bytes.Buffer
	if err := b.WriteTar(&out); err != nil {
		t.Fatal(err)
	}
	whole := out.Bytes()
	for i := range whole {
		for _, flip := range []byte{1, 0x20, whole[i]} { // the last makes it 0
			archive := bytes.Clone(whole)
			archive[i] ^= flip
			sameBundle(t, archive, Limits{})
		}
	}
	for n := range whole {
		sameBundle(t, whole[:n], Limits{})
	}
	sameBundle(t, append(bytes.Clone(whole), make([]byte, 100)...), Limits{})
	sameBundle(t, append(bytes.Clone(whole), whole...), Limits{})
	for _, limits := range []Limits{{TotalBytes: 1000}, {FileBytes: 512}, {Artifacts: 3}} {
		sameBundle(t, whole, limits)
	}
}

// TestThirtyThreeBits: an archive that says of a file that it is the largest there
// can be is read like any, also where an int has 32 bits.
func TestThirtyThreeBits(t *testing.T) {
	var out bytes.Buffer
	if err := plainBundle().WriteTar(&out); err != nil {
		t.Fatal(err)
	}
	archive := out.Bytes()
	for _, digits := range []string{"77777777777", "60000000000", "37777777777", "20000000000"} {
		copy(archive[tarSize:], digits)
		copy(archive[tarChecksum:], "        ")
		sum := 0
		for _, c := range archive[:tarBlock] {
			sum += int(c)
		}
		putOctal(archive[tarChecksum:tarType-2], sum)
		archive[tarType-2] = 0
		sameBundle(t, archive, Limits{})
	}
}

func FuzzParseTar(f *testing.F) {
	b := plainBundle()
	delete(b.Artifacts, strings.Repeat("f", 64))
	var out bytes.Buffer
	if err := b.WriteTar(&out); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add(out.Bytes()[:tarBlock])
	f.Fuzz(func(t *testing.T, archive []byte) { sameBundle(t, archive, Limits{}) })
}

func sameBundle(t *testing.T, archive []byte, limits Limits) {
	t.Helper()
	got, gotErr := ParseTar(archive, limits)
	want, wantErr := ReadTar(bytes.NewReader(archive), limits)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && (gotErr.Error() != wantErr.Error() || !errors.Is(gotErr, ErrBundle)) {
		t.Fatalf("ParseTar: %v; ReadTar: %v", gotErr, wantErr)
	}
	if gotErr == nil && !maps.EqualFunc(maps.Collect(got.Files()), maps.Collect(want.Files()), bytes.Equal) {
		t.Fatal("ParseTar and ReadTar come to different bundles")
	}
}
