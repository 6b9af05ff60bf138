package sqlite

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestTheLogHasRoom: commits write into a file that is long enough already, and
// what follows them in it does not count after a kill.
func TestTheLogHasRoom(t *testing.T) {
	path, copied := temp(t), filepath.Join(t.TempDir(), "copy.db")
	db := open(t, path, Options{})
	size := func() int64 {
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	var first int64
	for i := range 20 {
		if err := db.Update(t.Context(), insert(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = size()
		}
	}
	if size() != first || first < logStep {
		t.Errorf("the log had %d bytes after one commit and %d after 20", first, size())
	}
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := values(t, open(t, copied, Options{})); len(got) != 20 {
		t.Errorf("%d of 20 rows are left", len(got))
	}
}

// TestTheLogGrowsWithItsCommits: room is made again when it is used up, and no
// more than the log can have.
func TestTheLogGrowsWithItsCommits(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	var sizes []int64
	for range 24 { // of a megabyte each: more than a checkpoint leaves
		err := db.Update(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO t(v) VALUES (hex(randomblob(524288)))")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, st.Size())
	}
	if last := sizes[len(sizes)-1]; last < sizes[0]+2*logStep || last > logSize+4*logStep {
		t.Errorf("sizes of the log: %d", sizes)
	}
}

// TestTheLogIsMadeLongerInATransaction: several processes may have a file open,
// and zeros behind what was the end of the log a moment ago would be written over
// what another has committed since.
func TestTheLogIsMadeLongerInATransaction(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	size := func() (n int64) {
		if st, err := os.Stat(path + "-wal"); err == nil {
			n = st.Size()
		}
		return n
	}
	var inside int64
	db.writer.raw.RegisterCommitHook(func() int { inside = size(); return 0 })
	before := size()
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	if after := size(); inside != after || after != before+logStep {
		t.Errorf("the log had %d bytes, %d when it was written to and %d behind the commit", before, inside, after)
	}
}
