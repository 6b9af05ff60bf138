package receipts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// boxes are a sealed result with its key.
type boxes struct {
	key        receipts.SealKey
	seal       receipts.Seal
	doc        []byte
	contents   [][]byte
	boxes      [][]byte
	quote      hashing.Digest
	commitment hashing.Digest
}

func sealSome(t testing.TB, change func(*receipts.Seal)) boxes {
	t.Helper()
	return sealBeside(t, nil, change)
}

// sealBeside seals a result, a replay and an artifact.
func sealBeside(t testing.TB, artifact []byte, change func(*receipts.Seal)) boxes {
	t.Helper()
	b := boxes{contents: [][]byte{[]byte(`{"a":1}`), []byte("replay"), artifact}, quote: hashing.Bytes([]byte("quote"))}
	b.seal = receipts.NewSeal(recipe{}.make().terms, []receipts.SealedContent{
		{Role: receipts.RoleResult, Digest: hashing.Bytes(b.contents[0]), Size: 7},
		{Role: receipts.RoleReplay, Digest: hashing.Bytes(b.contents[1]), Size: 6},
		{Role: receipts.RoleArtifact, Digest: hashing.Bytes(artifact), Size: int64(len(artifact))},
	})
	if change != nil {
		change(&b.seal)
	}
	var err error
	if b.doc, err = b.seal.Canonical(); err != nil {
		t.Fatal(err)
	}
	b.commitment = hashing.Bytes(b.doc)
	if b.key, err = receipts.NewSealKey(preimage(), b.quote, strings.Repeat("a", 64), b.commitment); err != nil {
		t.Fatal(err)
	}
	if b.boxes, err = b.key.SealAll(b.doc, b.contents); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealRoundTrip(t *testing.T) {
	b := sealBeside(t, bytes.Repeat([]byte("artifact"), 1<<20+1), nil)
	if len(b.boxes) != 2 {
		t.Fatalf("%d boxes", len(b.boxes))
	}
	s, doc, contents, err := b.key.OpenAll(b.boxes)
	if err != nil || !bytes.Equal(doc, b.doc) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.seal, s); diff != "" {
		t.Error(diff)
	}
	for i := range contents {
		if !bytes.Equal(contents[i], b.contents[i]) {
			t.Errorf("content %d is %q", i, contents[i])
		}
	}
	for i, box := range b.boxes {
		if bytes.Contains(box, b.contents[0]) || bytes.Contains(box, b.contents[2][:32]) {
			t.Errorf("box %d shows its content", i)
		}
	}
	if first, again := sealSome(t, nil), sealSome(t, nil); again.commitment == first.commitment || bytes.Equal(again.boxes[0], first.boxes[0]) {
		t.Error("the same result makes the same commitment or box twice")
	}
}

// TestBoxesTellASizeClass: number and sizes of the boxes of all results that are
// possible take 14 forms, each twice as large as the one before, whatever is in them.
func TestBoxesTellASizeClass(t *testing.T) {
	const fixed = 4 + 7 + 6 // the length, the result and the replay
	seal := int64(len(sealSome(t, nil).doc))
	forms := map[string]bool{}
	for class := int64(16 << 10); class <= 128<<20; class *= 2 {
		for _, used := range []int64{class, class - 1, class/2 + 1} {
			if class > 16<<20 && used < class {
				continue // large ones take long
			}
			if class == 16<<10 {
				used = max(used-class/2, seal+fixed)
			}
			digits := int64(len(fmt.Sprint(used))) - 1 // of the artifact's size in the seal
			artifact := make([]byte, max(0, used-fixed-seal-digits))
			b := sealBeside(t, artifact, nil)
			var sizes []int
			for _, box := range b.boxes {
				sizes = append(sizes, len(box)-receipts.BoxOverhead)
			}
			want := slices.Repeat([]int{int(min(class, 8<<20))}, int(max(1, class>>23)))
			if len(artifact)+fixed+len(b.doc) > int(class) || !slices.Equal(sizes, want) {
				t.Errorf("%d bytes: boxes of %d, want %d", len(artifact)+fixed+len(b.doc), sizes, want)
			}
			forms[fmt.Sprint(sizes)] = true
		}
	}
	if len(forms) != 14 {
		t.Errorf("%d forms", len(forms))
	}

	// Many artifacts and one look alike.
	one := sealBeside(t, make([]byte, 3000), nil)
	doc := must(receipts.NewSeal(recipe{}.make().terms, slices.Repeat(one.seal.Contents[:1], 1)).Canonical())
	boxes := must(one.key.SealAll(doc, slices.Repeat([][]byte{[]byte("x")}, 100)))
	if len(boxes) != 1 || len(boxes[0]) != len(one.boxes[0]) {
		t.Errorf("%d boxes, the first of %d bytes", len(boxes), len(boxes[0]))
	}
	if _, err := one.key.SealAll(doc, [][]byte{make([]byte, 128<<20)}); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("more than the largest class: %v", err)
	}
}

// TestBoxesHaveOneForm: what is in the boxes is the seal, what it lists and zeros up
// to the size class, and nothing else opens.
func TestBoxesHaveOneForm(t *testing.T) {
	b := sealSome(t, nil)
	stream := must(b.key.Open(0, b.boxes[0]))
	last := 4 + len(b.doc) + 7 + 6
	for name, change := range map[string]func([]byte) []byte{
		"as it is":            func(s []byte) []byte { return s },
		"empty":               func([]byte) []byte { return nil },
		"no padding":          func(s []byte) []byte { return s[:last] },
		"a byte less":         func(s []byte) []byte { return s[:len(s)-1] },
		"a byte more":         func(s []byte) []byte { return append(s, 0) },
		"the next class":      func(s []byte) []byte { return append(s, make([]byte, len(s))...) },
		"no zero behind":      func(s []byte) []byte { s[last] = 1; return s },
		"no zero at the end":  func(s []byte) []byte { s[len(s)-1] = 1; return s },
		"a longer seal":       func(s []byte) []byte { s[3]++; return s },
		"a seal without end":  func(s []byte) []byte { copy(s, "\xff\xff\xff\xff"); return s },
		"no seal":             func(s []byte) []byte { copy(s, "\x00\x00\x00\x00"); return s },
		"a content elsewhere": func(s []byte) []byte { s[4+len(b.doc)]++; return s },
	} {
		box := must(b.key.Seal(0, change(bytes.Clone(stream))))
		if _, _, _, err := b.key.OpenAll([][]byte{box}); (err == nil) != (name == "as it is") || err != nil && !errors.Is(err, receipts.ErrFalseBox) {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := sealSome(t, func(s *receipts.Seal) { s.Contents[1].Size = 1<<53 - 1 })
	if _, _, _, err := huge.key.OpenAll(huge.boxes); !errors.Is(err, receipts.ErrFalseBox) {
		t.Errorf("a size without end: %v", err)
	}
}

// TestFalseBoxes: whatever is not what was committed to, under the preimage that
// was paid for, is told as such.
func TestFalseBoxes(t *testing.T) {
	b := sealBeside(t, make([]byte, 9<<20), nil)
	other := sealSome(t, nil)
	keyOf := func(p payments.Preimage, quote hashing.Digest, id string, commitment hashing.Digest) receipts.SealKey {
		k, err := receipts.NewSealKey(p, quote, id, commitment)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	id := strings.Repeat("a", 64)
	flip := func(i, at int) [][]byte {
		all := append([][]byte{}, b.boxes...)
		all[i] = bytes.Clone(all[i])
		all[i][at] ^= 1
		return all
	}
	swapped := append([][]byte{}, b.boxes...)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	lying := sealSome(t, func(s *receipts.Seal) { s.Contents[1].Digest = hashing.Bytes([]byte("other")) })
	short := sealSome(t, func(s *receipts.Seal) { s.Contents[1].Size++ })
	fewer := sealBeside(t, []byte("x"), func(s *receipts.Seal) { s.Contents = s.Contents[:2] })
	for name, tt := range map[string]struct {
		key   receipts.SealKey
		boxes [][]byte
	}{
		"another preimage":    {keyOf(payments.Preimage{1}, b.quote, id, b.commitment), b.boxes},
		"another quote":       {keyOf(preimage(), hashing.Bytes(nil), id, b.commitment), b.boxes},
		"another request":     {keyOf(preimage(), b.quote, strings.Repeat("b", 64), b.commitment), b.boxes},
		"another commitment":  {keyOf(preimage(), b.quote, id, other.commitment), b.boxes},
		"no box":              {b.key, nil},
		"empty box":           {b.key, [][]byte{{}}},
		"a bit of the nonce":  {b.key, flip(0, 3)},
		"a bit of the result": {b.key, flip(1, receipts.BoxOverhead)},
		"a bit of the tag":    {b.key, flip(1, len(b.boxes[1])-1)},
		"swapped":             {b.key, swapped},
		"one missing":         {b.key, b.boxes[:1]},
		"one too many":        {b.key, append(b.boxes[:2:2], must(b.key.Seal(2, make([]byte, 8<<20))))},
		"two too many":        {b.key, append(b.boxes[:2:2], must(b.key.Seal(2, make([]byte, 8<<20))), must(b.key.Seal(3, make([]byte, 8<<20))))},
		"many":                {b.key, slices.Repeat(b.boxes[:1], 17)},
		"other content":       {lying.key, lying.boxes},
		"other size":          {short.key, short.boxes},
		"not listed":          {fewer.key, fewer.boxes},
	} {
		if _, _, _, err := tt.key.OpenAll(tt.boxes); !errors.Is(err, receipts.ErrFalseBox) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	good := sealSome(t, nil).seal
	for name, change := range map[string]func(*receipts.Seal){
		"version":      func(s *receipts.Seal) { s.Version = 2 },
		"salt":         func(s *receipts.Seal) { s.Salt = "AA" },
		"no output":    func(s *receipts.Seal) { s.OutputHash = hashing.Digest{} },
		"no contents":  func(s *receipts.Seal) { s.Contents = nil },
		"two results":  func(s *receipts.Seal) { s.Contents[1].Role = receipts.RoleResult },
		"no result":    func(s *receipts.Seal) { s.Contents = s.Contents[1:] },
		"unknown role": func(s *receipts.Seal) { s.Contents[2].Role = "policy" },
		"size":         func(s *receipts.Seal) { s.Contents[2].Size = -1 },
		"too many":     func(s *receipts.Seal) { s.Contents = append(s.Contents, make([]receipts.SealedContent, 256)...) },
	} {
		s := good
		s.Contents = append([]receipts.SealedContent{}, good.Contents...)
		change(&s)
		if _, err := s.Canonical(); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		doc, err := hashing.CanonicalValue(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receipts.ParseSeal(doc); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s, parsed: %v", name, err)
		}
	}
	doc, err := json.MarshalIndent(good, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receipts.ParseSeal(doc); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("not canonical: %v", err)
	}
}

func FuzzOpenAll(f *testing.F) {
	b := sealSome(f, nil)
	stream := must(b.key.Open(0, b.boxes[0]))
	f.Add(b.boxes[0], stream)
	f.Add([]byte{}, bytes.Repeat([]byte{1}, 16<<10))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		_, _, _, err := b.key.OpenAll([][]byte{first, second})
		if err == nil {
			t.Error("two boxes open, there is one")
		}
		box, err := b.key.Seal(0, second)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := b.key.OpenAll([][]byte{box}); (err == nil) != bytes.Equal(second, stream) {
			t.Errorf("what was sealed opens: %v", err)
		}
	})
}
