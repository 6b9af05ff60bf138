package curator

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

const log = `=== RUN TestLedgerBalances
    ledger_test.go:88: balance after the third payment: got 4200 msat, want 4700 msat
--- FAIL: TestLedgerBalances (0.31s)
FAIL	example.com/shop/ledger	0.322s
exit status 1, artifact sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`

// TestEveryEightWordRunIsRefused takes each run of the original, as it stands and
// dressed up, for a summary.
func TestEveryEightWordRunIsRefused(t *testing.T) {
	requirements.Covers(t, "AP-6.4.1")
	text := "We moved the queue to another host on Friday, after which the number of late jobs fell from ninety to three a day."
	words := strings.Fields(text)
	for i := range len(words) - maxRun + 1 {
		run := strings.Join(words[i:i+maxRun], " ")
		for _, summary := range []string{
			run, strings.ToUpper(run), strings.ReplaceAll(run, " ", "-"), strings.ReplaceAll(run, " ", ", "),
			"Queue work. " + run + "? So they say.",
		} {
			if err := CheckSummary(summary, []byte(text)); !errors.Is(err, ErrExcerpt) {
				t.Errorf("%q: %v", summary, err)
			}
		}
		if err := CheckSummary(strings.Join(words[i:i+maxRun-1], " "), []byte(text)); err != nil {
			t.Errorf("seven words from %d: %v", i, err)
		}
	}
}

func TestCheckSummary(t *testing.T) {
	for name, tt := range map[string]struct {
		summary, original string
		is                error
	}{
		"own words":            {"Late jobs dropped after a move.", "After the move there were fewer late jobs than in any other week.", nil},
		"empty":                {" \n", "text", ErrSummary},
		"not UTF-8":            {"a\xff", "text", ErrSummary},
		"a zero byte":          {"a\x00", "text", ErrSummary},
		"too long":             {strings.Repeat("ab ", maxSummaryBytes/3+1), "text", ErrSummary},
		"a short original":     {"it says: forty two.", "Forty-two", ErrExcerpt},
		"of no words":          {"dashes", "-- --", nil},
		"of nothing":           {"nothing", "", nil},
		"one long word":        {strings.Repeat("QUJD", 33), "something else entirely", ErrExcerpt},
		"a hash":               {strings.Repeat("ab", 64), "something else entirely", nil},
		"eight ideographs":     {"他说今天天气很好了", "昨天,他说今天天气很好了,所以我们去了公园", ErrExcerpt},
		"other ideographs":     {"天气;去公园", "昨天,他说今天天气很好了,所以我们去了公园", nil},
		"a binary original":    {"sixteen bytes of noise", "\xff\xfe\x00\x01 abc", nil},
		"the original's words": {"h g f e d c b a", "a b c d e f g h", nil},
	} {
		if err := CheckSummary(tt.summary, []byte(tt.original)); !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %v", name, err, tt.is)
		}
	}
}

func TestExtract(t *testing.T) {
	for name, tt := range map[string]struct{ contentType, original, want string }{
		"a test log": {"text/plain", log, "outcome: FAIL (2x); ids: TestLedgerBalances (2x), ledger_test.go:88, example.com/shop/ledger; " +
			"numbers: got=4200, want=4700, TestLedgerBalances=0.31s, 0.322s, status=1; " +
			"hashes: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08; " +
			"about: after, balance, ledger, msat, test, testledgerbalances; 281 bytes, 34 words of text/plain"},
		"a result": {
			"application/json", `{"status":"failed","exit_code":1,"id":"run-17","cost":{"msats":20000},"ok":false,"note":"see ticket OPS-4"}`,
			"outcome: exit_code=1, ok=false, status=failed; ids: id=run-17, OPS-4; numbers: msats=20000; " +
				"about: code, cost, exit, msats, note, status; 107 bytes, 18 words of application/json",
		},
		"an order of names":   {"application/json", `{"b":2,"a":1}`, "numbers: a=1, b=2; 13 bytes, 4 words of application/json"},
		"numbers alone":       {"text/csv", "1 2 3 4 5 6 7 8 9", "numbers: 1, 2, 3, 4, 5, 6, 7; 17 bytes, 9 words of text/csv"},
		"one number":          {"text/plain", "42", "2 bytes, 1 words of text/plain"},
		"nothing":             {"text/plain", "", "0 bytes, 0 words of text/plain"},
		"our own frame":       {"text/plain", "words of text/plain", "folded"},
		"a single word of it": {"text/plain", "1", "folded"},
		"our last word":       {"text/bytes", "folded bytes", "about: bytes, folded; 12 bytes, 2 words of text/bytes"},
		"the very last":       {"folded/plain", "folded", "set-aside"},
		"broken JSON":         {"application/json", `{"status":"failed"`, "about: status; 18 bytes, 2 words of application/json"},
	} {
		if got := Extract(tt.contentType, []byte(tt.original)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tt.want)
		}
	}
}

// TestExtractOfALargeOriginalKeepsTheRules has facts that are a run of the
// original, and too much of it to try each.
func TestExtractOfALargeOriginalKeepsTheRules(t *testing.T) {
	original := []byte(strings.Repeat("11 12 13 14 15 16 17 18 ", 1<<17))
	if err := CheckSummary(Extract("text/plain", original), original); err != nil {
		t.Error(err)
	}
}

// FuzzExtract holds every extraction to the rules of a summary.
func FuzzExtract(f *testing.F) {
	for _, s := range []string{
		log, "", "42", "1 2 3 4 5 6 7 8 9", "a b c d e f g h i", `{"status":"ok","list":[1,2,3,4,5,6,7,8,9,10]}`, `[[[[["a=b"]]]]]`, "\xff\x00=1",
		"outcome: FAIL; ids: a/b; 12 bytes, 3 words of text/plain", "words of text/plain", "1", "folded", "set aside", "=== a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9",
		`{"status":"\u202eabc\u0000"}`, "他说今天天气很好了 sha256:" + strings.Repeat("a", 64),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		summary := Extract("text/plain", []byte(s))
		if err := CheckSummary(summary, []byte(s)); err != nil {
			t.Fatalf("%q: %v", summary, err)
		}
		if !utf8.ValidString(summary) || strings.ContainsAny(summary, "\n\x00\x1b") {
			t.Fatalf("%q is not one line of text", summary)
		}
		if again := Extract("text/plain", []byte(s)); again != summary {
			t.Fatalf("%q, then %q", summary, again)
		}
	})
}
