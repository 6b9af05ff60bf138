package sandbox

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
	"pgregory.net/rapid"
)

// However output is cut into pieces, the digest, the preview and the streamed
// text are the same, and what is streamed is valid UTF-8 in every piece.
func TestStreamIsIndependentOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "漢", "🙂", "\xff", "\xc3", "\xf0\x9f", "\x00", "\n"})).Draw(t, "text")
		whole := strings.Join(text, "")
		var got strings.Builder
		s := newStream("stdout", func(channel, text string) {
			if channel != "stdout" || !utf8.ValidString(text) {
				t.Fatalf("streamed %q on %s", text, channel)
			}
			got.WriteString(text)
		})
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			s.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		s.end()
		if s.digest() != hashing.Bytes([]byte(whole)) {
			t.Fatal("digest depends on the pieces")
		}
		if utf8.ValidString(whole) && (got.String() != whole || s.preview(maxPreviewBytes) != whole) {
			t.Fatalf("%q was streamed as %q, shown as %q", whole, got.String(), s.preview(maxPreviewBytes))
		}
	})
}

func TestPreviewIsCutBetweenCharacters(t *testing.T) {
	for _, unit := range []string{"x", "é", "漢", "🙂", "\xff", "a🙂"} {
		for shift := range 4 {
			s := newStream("stdout", nil)
			s.write([]byte(strings.Repeat("x", shift) + strings.Repeat(unit, 20_000)))
			for _, limit := range []int{maxPreviewBytes, 4096, 1} {
				p := s.preview(limit)
				if len(p) > limit || utf8.ValidString(unit) && len(p) < limit-3 || !utf8.ValidString(p) {
					t.Errorf("%q shifted by %d: %d bytes of %d, valid %v", unit, shift, len(p), limit, utf8.ValidString(p))
				}
				if utf8.ValidString(unit) && strings.ContainsRune(p, utf8.RuneError) {
					t.Errorf("%q shifted by %d: the cut made a replacement character", unit, shift)
				}
			}
		}
	}
}

func TestMIME(t *testing.T) {
	for head, want := range map[string]string{
		"":                                  "text/plain; charset=utf-8",
		"text é":                            "text/plain; charset=utf-8",
		strings.Repeat("x", 511) + "\xc3":   "text/plain; charset=utf-8",
		"\x7fELF\x02\x01\x01\x00":           "application/octet-stream",
		"a\xffb":                            "application/octet-stream",
		strings.Repeat("\xff", 4):           "application/octet-stream",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00z": "application/octet-stream",
	} {
		if got := mimeOf([]byte(head)); got != want {
			t.Errorf("%q is %s", head, got)
		}
	}
}
