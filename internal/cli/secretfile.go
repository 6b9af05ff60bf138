package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// keepOld has what is in a secret's place stay as FILE.old too, over which
// nothing is written.
func keepOld(path string) error {
	old := path + ".old"
	err := os.Link(path, old)
	if err == nil || errors.Is(err, fs.ErrNotExist) || sameFile(path, old) {
		return nil
	}
	return advice.Usage("move it away", "keep what is there as %s: %w", old, err)
}

// sameFile reports that both names are of one file, as a run leaves them that was
// killed between keepOld and swapIn.
func sameFile(a, b string) bool {
	one, err1 := os.Lstat(a)
	two, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// swapIn puts a written file in the place of another in one step: at no moment
// is there half a secret, or none.
func swapIn(fresh, path string) error {
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return cmp.Or(dir.Sync(), dir.Close())
}
