package row_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// TestInto: a column of 32 bytes holds 32 bytes or nothing; anything else was not written
// by us.
func TestInto(t *testing.T) {
	d := hashing.Bytes([]byte("x"))
	for name, c := range map[string]struct {
		column any
		want   hashing.Digest
		ok     bool
	}{
		"a digest": {d[:], d, true}, "NULL": {nil, hashing.Digest{}, true}, "31 bytes": {d[:31], d, false},
		"33 bytes": {append(d[:], 0), d, false}, "text": {d.Hex(), d, false}, "a number": {int64(1), d, false}, "no bytes": {[]byte{}, d, false},
	} {
		got := hashing.Bytes([]byte("was"))
		err := row.Into(&got).Scan(c.column)
		if (err == nil) != c.ok || c.ok && got != c.want || err != nil && !errors.Is(err, row.ErrCorrupt) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if row.Blob(hashing.Digest{}) != nil || string(row.Blob(d)) != string(d[:]) || row.BlobPtr(nil) != nil || string(row.BlobPtr(&d)) != string(d[:]) {
		t.Error("a digest is not stored as it is read")
	}
	if row.NotNull(nil) == nil || len(row.NotNull([]byte("x"))) != 1 {
		t.Error("an empty content is stored as NULL")
	}
}

// TestTimes: a time comes back to the millisecond and in UTC, and none as none.
func TestTimes(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 1_999_999, time.FixedZone("", 7200))
	if got := row.FromNullMs(row.Ms(at)); !got.Equal(at.Truncate(time.Millisecond)) || got.Location() != time.UTC {
		t.Errorf("%v comes back as %v", at, got)
	}
	if got := row.FromNullMs(row.Ms(time.Time{})); !got.IsZero() || row.Ms(time.Time{}).Valid {
		t.Errorf("no time comes back as %v", got)
	}
	if row.Text("").Valid || !row.Text("x").Valid {
		t.Error("a text that is none is stored as one")
	}
}

func TestNotFound(t *testing.T) {
	if err := row.NotFound(sql.ErrNoRows, "job x"); !errors.Is(err, row.ErrNotFound) || !strings.Contains(err.Error(), "job x") {
		t.Errorf("%v", err)
	}
	broken := errors.New("disk")
	if err := row.NotFound(broken, "job x"); errors.Is(err, row.ErrNotFound) || !errors.Is(err, broken) {
		t.Errorf("a disk that fails is %v", err)
	}
}

// FuzzClip: whatever a stranger writes, what is kept is within its bound and can be
// stored and read as text.
func FuzzClip(f *testing.F) {
	f.Add("ok", 2)
	f.Add("a\x00b\xff", 3)
	f.Add("héllo", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(0, min(n, 1<<12))
		got := row.Clip(text, n)
		if len(got) > n || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%q within %d is %q", text, n, got)
		}
		if utf8.ValidString(text) && !strings.Contains(text, "\x00") && len(text) <= n && got != text {
			t.Errorf("%q was fine, and is %q", text, got)
		}
	})
}
