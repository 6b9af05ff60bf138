package receipts_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	b := boxes{contents: [][]byte{[]byte(`{"a":1}`), []byte("replay"), {}}, quote: hashing.Bytes([]byte("quote"))}
	b.seal = receipts.NewSeal(recipe{}.make().terms, []receipts.SealedContent{
		{Role: receipts.RoleResult, Digest: hashing.Bytes(b.contents[0]), Size: 7},
		{Role: receipts.RoleReplay, Digest: hashing.Bytes(b.contents[1]), Size: 6},
		{Role: receipts.RoleArtifact, Digest: hashing.Bytes(b.contents[2]), Size: 0},
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
	for i, content := range append([][]byte{b.doc}, b.contents...) {
		box, err := b.key.Seal(i, content)
		if err != nil {
			t.Fatal(err)
		}
		b.boxes = append(b.boxes, box)
	}
	return b
}

func TestSealRoundTrip(t *testing.T) {
	b := sealSome(t, nil)
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
	for i, box := range b.boxes[1:] {
		if len(box) != len(b.contents[i])+receipts.BoxOverhead || len(b.contents[i]) > 0 && bytes.Contains(box, b.contents[i]) {
			t.Errorf("box %d of %d bytes holds %d", i+1, len(box), len(b.contents[i]))
		}
	}
	if again := sealSome(t, nil); again.commitment == b.commitment || bytes.Equal(again.boxes[1], b.boxes[1]) {
		t.Error("the same result makes the same commitment or box twice")
	}
}

// TestFalseBoxes: whatever is not what was committed to, under the preimage that
// was paid for, is told as such.
func TestFalseBoxes(t *testing.T) {
	b := sealSome(t, nil)
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
	swapped[1], swapped[2] = swapped[2], swapped[1]
	lying := sealSome(t, func(s *receipts.Seal) { s.Contents[1].Digest = hashing.Bytes([]byte("other")) })
	short := sealSome(t, func(s *receipts.Seal) { s.Contents[1].Size++ })
	fewer := sealSome(t, func(s *receipts.Seal) { s.Contents = s.Contents[:2] })
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
		"a bit of the tag":    {b.key, flip(2, len(b.boxes[2])-1)},
		"swapped":             {b.key, swapped},
		"one missing":         {b.key, b.boxes[:3]},
		"one too many":        {b.key, append(b.boxes[:4:4], b.boxes[3])},
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
	f.Add(b.boxes[0], b.boxes[1])
	f.Add([]byte{}, bytes.Repeat([]byte{1}, receipts.BoxOverhead))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if _, _, _, err := b.key.OpenAll([][]byte{first, second}); err == nil {
			t.Error("two boxes of four open")
		}
	})
}
