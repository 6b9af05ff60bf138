// Package wholefile replaces small files: whoever reads one finds the old text or the new
// one, also after a crash.
package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write puts a text in the place of a file, which its user alone can read. The text is on
// the disk when Write returns. The folder must be there.
func Write(path string, text []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
}

// SyncDir makes what was renamed or removed in a folder last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
