package archive

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tables = sqlite.Options{Migrations: []string{"CREATE TABLE t(word TEXT) STRICT"}, ExclusiveLock: true}

// folder is a data folder with a database that holds word, which stays open, and a file.
func folder(t *testing.T, word string) (dir string, db *sqlite.DB) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	for _, sub := range []string{"wallet", "provider/run", "relay/blobs/ab", "provider/before-restore-1"} {
		check(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	for _, name := range []string{"word", "relay/blobs/ab/blob", "provider/run/control.key", "provider/before-restore-1/node.db", "Cargo.lock"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(word), 0o640))
	}
	check(t, os.Symlink("../../word", filepath.Join(dir, "relay/blobs/link")))

	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "wallet/w.db"), tables)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	check(t, db.Update(t.Context(), func(tx *sqlite.Tx) error { _, err := tx.Exec("INSERT INTO t VALUES (?)", word); return err }))
	return dir, db
}

// wordsOf is what a data folder holds: in its database, and in its file.
func wordsOf(t *testing.T, dir string) (inDatabase, inFile string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "wallet/w.db"), tables)
	check(t, err)
	check(t, db.View(t.Context(), func(tx *sqlite.Tx) error { return tx.QueryRow("SELECT word FROM t").Scan(&inDatabase) }))
	check(t, db.Close())
	text, err := os.ReadFile(filepath.Join(dir, "relay/blobs/link"))
	check(t, err)
	return inDatabase, string(text)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quiet(string) {}

// backup is one of a folder that holds word.
func backup(t *testing.T, word string) string {
	t.Helper()
	data, _ := folder(t, word)
	out := filepath.Join(t.TempDir(), "backup")
	_, err := Write(t.Context(), data, out, quiet)
	check(t, err)
	return out
}

// TestWhole: all that a node needs is in the backup of a folder in use, and nothing that only
// its processes need.
func TestWhole(t *testing.T) {
	data, db := folder(t, "old")
	out := filepath.Join(t.TempDir(), "backup")
	made, err := Write(t.Context(), data, out, quiet)
	check(t, err)
	if made.Databases != 1 || made.Files != 4 {
		t.Errorf("%+v", made)
	}
	for _, name := range []string{"provider/run", "provider/before-restore-1", "wallet/w.db-wal", "wallet/w.db.lock"} {
		if _, err := os.Lstat(filepath.Join(out, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is in it: %v", name, err)
		}
	}
	if _, err := Write(t.Context(), data, out, quiet); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written over a backup: %v", err)
	}
	left, err := filepath.Glob(filepath.Dir(out) + "/*")
	check(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}

	_, _, err = Restore(t.Context(), data, out)
	if locked := (*sqlite.LockedError)(nil); !errors.As(err, &locked) {
		t.Fatalf("restored under an open database: %v", err)
	}
	check(t, db.Close())
	check(t, os.WriteFile(filepath.Join(data, "word"), []byte("new"), 0o600))
	kept, _, err := Restore(t.Context(), data, out)
	check(t, err)
	if a, b := wordsOf(t, data); a != "old" || b != "old" {
		t.Errorf("restored: %s, %s", a, b)
	}
	if a, b := wordsOf(t, kept); a != "old" || b != "new" {
		t.Errorf("kept: %s, %s", a, b)
	}
	info, err := os.Stat(filepath.Join(data, "word"))
	check(t, err)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}

	// A restored folder is backed up like any other.
	_, err = Write(t.Context(), data, filepath.Join(t.TempDir(), "again"), quiet)
	check(t, err)
}

// TestKilledAtEachStep: a restore that ends after any step, or within it, has left the old
// folder or the new one, whole; and it can be run again.
func TestKilledAtEachStep(t *testing.T) {
	for n := range len(steps) + 1 {
		for _, was := range []string{"old", "gone"} {
			name := "before all"
			if n > 0 {
				name = "after " + steps[n-1].name
			}
			t.Run(name+", "+was, func(t *testing.T) {
				data, db := folder(t, "old")
				check(t, db.Close())
				if was == "gone" {
					check(t, os.RemoveAll(data))
				}
				from := backup(t, "new")
				killAfter(t, data, from, n)

				exchanged := n > 0 && slicesIndex("exchange") < n
				if exchanged || was == "old" {
					want := "old"
					if exchanged {
						want = "new"
					}
					if a, b := wordsOf(t, data); a != want || b != want {
						t.Fatalf("killed, it holds %s and %s, not %s", a, b, want)
					}
				}

				kept, _, err := Restore(t.Context(), data, from)
				check(t, err)
				if a, b := wordsOf(t, data); a != "new" || b != "new" {
					t.Errorf("restored again: %s, %s", a, b)
				}
				if _, err := os.Lstat(data + ".restoring"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("left behind: %v", err)
				}
				if was == "old" {
					keptOld(t, data, kept)
				}
			})
		}
	}
}

// killAfter does the first n steps of a restore, and of the next one, if it copies, a half.
func killAfter(t *testing.T, data, from string, n int) {
	t.Helper()
	l, err := read(t.Context(), from)
	check(t, err)
	r := &restoring{data: data, from: from, side: data + ".restoring", list: l, run: "run"}
	for _, s := range steps[:n] {
		check(t, s.do(t.Context(), r))
	}
	if n < len(steps) && steps[n].name == "copy" {
		half := *r
		half.list.Files = l.Files[:len(l.Files)/2]
		check(t, half.copy(t.Context()))
		check(t, os.WriteFile(filepath.Join(half.fresh(), "torn"), []byte("x"), 0o600))
	}
}

func slicesIndex(name string) int {
	for i, s := range steps {
		if s.name == name {
			return i
		}
	}
	return -1
}

// keptOld: among the folders that were put aside is the old one.
func keptOld(t *testing.T, data, kept string) {
	t.Helper()
	all, err := filepath.Glob(data + ".before-restore-*")
	check(t, err)
	for _, dir := range all {
		if a, _ := wordsOf(t, dir); a == "old" {
			return
		}
	}
	t.Errorf("the old folder is lost; %q are there, %s was told of", all, kept)
}

// TestNotWhole: what is not what Write made takes the place of nothing.
func TestNotWhole(t *testing.T) {
	edit := func(change func(*list)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			name := filepath.Join(dir, listName)
			text, err := os.ReadFile(name)
			check(t, err)
			var l list
			check(t, json.Unmarshal(text, &l))
			change(&l)
			text, err = json.Marshal(l)
			check(t, err)
			check(t, os.WriteFile(name, text, 0o600))
		}
	}
	place := func(to string) func(*testing.T, string) {
		return edit(func(l *list) { l.Files[0].Path = to })
	}
	for name, spoil := range map[string]func(*testing.T, string){
		"no list":         func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, listName))) },
		"half a list":     func(t *testing.T, dir string) { check(t, os.Truncate(filepath.Join(dir, listName), 50)) },
		"an endless list": func(t *testing.T, dir string) { check(t, os.Truncate(filepath.Join(dir, listName), maxList+1)) },
		"no file":         func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, "word"))) },
		"a changed file": func(t *testing.T, dir string) {
			check(t, os.WriteFile(filepath.Join(dir, "word"), []byte("NEW"), 0o600))
		},
		"a folder for a file": func(t *testing.T, dir string) {
			check(t, os.Remove(filepath.Join(dir, "word")))
			check(t, os.Mkdir(filepath.Join(dir, "word"), 0o700))
		},
		"a torn database": func(t *testing.T, dir string) { check(t, os.Truncate(filepath.Join(dir, "wallet/w.db"), 4096)) },
		"a link outside": edit(func(l *list) {
			for i := range l.Files {
				if l.Files[i].Link != "" {
					l.Files[i].Link = "../../../word"
				}
			}
		}),
		"a later version": edit(func(l *list) { l.Version++ }),
		"a file twice":    edit(func(l *list) { l.Files = append(l.Files, l.Files[0]) }),
		"outside":         place("../word"),
		"absolute":        place("/etc/passwd"),
		"not clean":       place("wallet/../wallet/w.db"),
		"the mark":        place(markName),
		"a setuid file":   edit(func(l *list) { l.Files[len(l.Files)-1].Mode |= fs.ModeSetuid }),
		"a live database": func(t *testing.T, dir string) {
			check(t, sqlite.ToWAL(t.Context(), filepath.Join(dir, "wallet/w.db")))
			edit(func(l *list) { check(t, l.Files[0].measure(filepath.Join(dir, l.Files[0].Path))) })(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, db := folder(t, "old")
			check(t, db.Close())
			from := backup(t, "new")
			spoil(t, from)
			if _, _, err := Restore(t.Context(), data, from); !errors.Is(err, ErrNoBackup) {
				t.Errorf("%v", err)
			}
			if a, b := wordsOf(t, data); a != "old" || b != "old" {
				t.Errorf("it holds %s and %s", a, b)
			}
		})
	}
}

// TestStopped: who gives up finds nothing half done.
func TestStopped(t *testing.T) {
	data, _ := folder(t, "old")
	ctx, cancel := context.WithCancel(t.Context())
	out := filepath.Join(t.TempDir(), "backup")
	if _, err := Write(ctx, data, out, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(out))
	check(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLinkOutside: what a link outside leads to would be missing in a restored folder.
func TestLinkOutside(t *testing.T) {
	data, _ := folder(t, "old")
	check(t, os.Symlink("/etc", filepath.Join(data, "etc")))
	if _, err := Write(t.Context(), data, filepath.Join(t.TempDir(), "backup"), quiet); !errors.Is(err, ErrLink) || !strings.Contains(err.Error(), "etc") {
		t.Errorf("%v", err)
	}
}
