package keys

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/relay"
)

// KeepOld has what is in a secret's place stay as FILE.old too, over which
// nothing is written.
func KeepOld(path string) error {
	old := path + ".old"
	err := os.Link(path, old)
	if err == nil || errors.Is(err, fs.ErrNotExist) || sameFile(path, old) {
		return nil
	}
	return advice.Usage("move it away", "keep what is there as %s: %w", old, err)
}

// sameFile reports that both names are of one file, as a run leaves them that was
// killed between KeepOld and SwapIn.
func sameFile(a, b string) bool {
	one, err1 := os.Lstat(a)
	two, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// SwapIn puts a written file in the place of another in one step: at no moment
// is there half a secret, or none.
func SwapIn(fresh, path string) error {
	err := MoveIn(fresh, path)
	if _, there := os.Lstat(fresh); err != nil && there == nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return err
}

// MoveIn is [SwapIn] of a file that stays where it is if that fails.
func MoveIn(fresh, path string) error {
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return cmp.Or(dir.Sync(), dir.Close())
}

// KeyMaker makes a role's key file: from the file that has the key, or anew.
func KeyMaker(c *config.Config, role, from string) func(string) error {
	return func(path string) error {
		if from == "" {
			key, err := relay.GenerateKey()
			if err != nil {
				return err
			}
			return key.WriteFile(path)
		}

		text, err := relay.ReadKeyFile(from)
		if err != nil {
			return advice.Usage("", "%w", err)
		}
		k, err := Parse(RoleKey{Role: role, Path: from}, text)
		if err != nil {
			return err
		}
		k.Path = path
		return ReplaceKey(k)
	}
}

// PlaceFree refuses a place that has a key, unless it may be replaced.
func PlaceFree(path string, force bool) error {
	_, err := os.Lstat(path)
	if err == nil && !force {
		return advice.Usage(advice.ReplaceFile+" replaces it and keeps it as "+path+".old", "%s holds a key already", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// PlaceKey writes a key into its place. What is there stays as FILE.old, and
// neither that nor anything else is overwritten.
func PlaceKey(k RoleKey, force bool) error {
	if err := PlaceFree(k.Path, force); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.Path), 0o700); err != nil {
		return err
	}
	if err := KeepOld(k.Path); err != nil {
		return err
	}
	return ReplaceKey(k)
}

// ReplaceKey puts a key file in the place of another.
func ReplaceKey(k RoleKey) error {
	text := k.Text
	if k.Kept == KeptLocked && k.Public != "" {
		text += "\n# " + display.NPub(k.Public)
	}
	fresh := k.Path + ".new"
	if err := relay.WriteKeyFile(fresh, text); err != nil {
		return err
	}
	return SwapIn(fresh, k.Path)
}
