package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxScanned bounds how many folders of one root are looked at.
const maxScanned = 4096

// Found is one folder with a manifest, good or bad.
type Found struct {
	Dir      string // absolute
	Manifest *Manifest
	Err      error // *Error; Manifest is nil then
}

// Discover looks for manifests in root and in the folders directly below it.
// It opens nothing but manifests, and runs nothing (OSX-8). Two folders with
// one id are both returned: who starts agents must refuse that.
func Discover(root string) ([]Found, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("look for agents: %w", err)
	}
	if len(entries) > maxScanned {
		return nil, fmt.Errorf("look for agents: %s holds more than %d entries", root, maxScanned)
	}
	dirs := []string{root}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(root, e.Name()))
		}
	}
	var found []Found
	for _, dir := range dirs {
		path := filepath.Join(dir, FileName)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		m, err := Read(path)
		found = append(found, Found{Dir: dir, Manifest: m, Err: err})
	}
	return found, nil
}
