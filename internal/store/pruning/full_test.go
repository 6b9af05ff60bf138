package pruning_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestPruneOnAFullDisk prunes on a disk without room, and again each time that a little
// room was made: it fails for what it is, loses nothing, and ends as on a large disk.
func TestPruneOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", 24<<20)); err != nil {
		testclass.Unavailable(t, fmt.Sprintf("a small disk cannot be mounted here: %v", err))
	}
	t.Cleanup(func() { storetest.Must(t, unix.Unmount(disk, unix.MNT_DETACH)) })

	k := &storetest.DB{Dir: filepath.Join(disk, "node"), Now: storetest.Start}
	k.Reopen(t)
	t.Cleanup(func() { _ = k.Close() })
	for i := range 3 {
		sell(t, k, fmt.Sprint(i), promised(), fmt.Appendf(make([]byte, 600<<10), "artifact %d", i))
	}
	k.Now = storetest.Start.AddDate(1, 0, 0)
	kept := []byte("promised")
	later := sell(t, k, "later", promised(), kept)
	k.Reopen(t) // which empties the log
	storetest.Must(t, k.Pruning().TrustClock(t.Context()))

	large := &storetest.DB{Dir: image(t, k.Dir), Now: k.Now}
	large.Reopen(t)
	storetest.Must(t, commits(t.Context(), large.Pruning(), promised(), func() {}))
	want := large.Dump(t)
	storetest.Must(t, large.Close())

	filler, err := os.Create(filepath.Join(disk, "filler"))
	storetest.Must(t, err)
	defer filler.Close()
	room := int64(0)
	for block := make([]byte, 4096); ; room += int64(len(block)) {
		if _, err := filler.Write(block); err != nil {
			break
		}
	}

	failed := 0
	for ; ; failed++ {
		err := commits(t.Context(), k.Pruning(), promised(), func() {})
		if err == nil {
			break
		}
		if !sqlite.IsFull(err) && !errors.Is(err, sqlite.ErrReadOnly) || room == 0 {
			t.Fatalf("with %d bytes of %d taken: %v", room, 24<<20, err)
		}
		if got := left(t, k, later); len(got) != len(receipts.Parts()) {
			t.Fatalf("of a job that is promised only %v is left", got)
		}
		if room = max(0, room-4096); filler.Truncate(room) != nil {
			t.Fatal("no room was made")
		}
		k.Reopen(t) // as the node is started again
	}
	if failed == 0 {
		t.Error("the disk was never full")
	}
	if diff := cmp.Diff(want, k.Dump(t)); diff != "" {
		t.Errorf("after %d failures:\n%s", failed, diff)
	}
}
