// Package spending keeps the owner's word that no money leaves a node. The word is a file
// in the data folder, so that it counts at once for every process that pays from there,
// and for those that are started later.
package spending

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/internal/wholefile"
	"github.com/lightwork-market/lightwork/payments"
)

const (
	fileName = "spending-stopped"
	// maxFile bounds the file, in bytes, and maxWhy the reason in it.
	maxFile = 4096
	maxWhy  = 500
)

// Switch is the word of one data folder.
type Switch struct{ dir string }

// In is the word of a data folder, which need not be there.
func In(dir string) Switch { return Switch{dir} }

// Stopped is the error of a payment that the owner's word keeps back. It is a
// [payments.ErrSpendingStopped].
type Stopped struct {
	At  time.Time // since when; zero if the file does not say
	Why string    // the owner's reason, "" if none was given
	// Trouble is why the word cannot be read, which stops spending too; nil if it can.
	Trouble error
}

func (s *Stopped) Error() string {
	text := payments.ErrSpendingStopped.Error()
	switch {
	case s.Trouble != nil:
		return text + ", because the owner's word cannot be read: " + s.Trouble.Error()
	case s.Why != "":
		return fmt.Sprintf("%s since %s: %s", text, s.At.Format(time.RFC3339), s.Why)
	}
	return fmt.Sprintf("%s since %s", text, s.At.Format(time.RFC3339))
}

// Unwrap makes it a [payments.ErrSpendingStopped].
func (s *Stopped) Unwrap() error { return payments.ErrSpendingStopped }

// word is the file's content.
type word struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

func (s Switch) path() string { return filepath.Join(s.dir, fileName) }

// Check is a [payments.MaySpend]: nil if money may leave, else a [*Stopped]. Only a data
// folder that is there, without the file, lets money go.
func (s Switch) Check() error {
	if _, err := os.Stat(s.dir); err != nil {
		return &Stopped{Trouble: err}
	}
	f, err := os.Open(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &Stopped{Trouble: err}
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return &Stopped{Trouble: err}
	}
	var w word
	if len(text) > maxFile || hashing.Unmarshal(text, &w) != nil {
		return &Stopped{Trouble: fmt.Errorf("%s is not what was written there", s.path())}
	}
	return &Stopped{At: w.At, Why: clip.Line(w.Why, maxWhy)}
}

// Stop keeps all money here from now on. What is stopped already stays so, for the first
// reason. The word is on the disk when Stop returns.
func (s Switch) Stop(why string) error {
	var stopped *Stopped
	if errors.As(s.Check(), &stopped) && stopped.Trouble == nil {
		return nil
	}

	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("stop spending: %w", err)
	}
	text, err := json.Marshal(word{At: time.Now().UTC().Truncate(time.Second), Why: clip.Line(why, maxWhy)})
	if err != nil {
		return fmt.Errorf("stop spending: %w", err)
	}
	if err := wholefile.Write(s.path(), append(text, '\n')); err != nil {
		return fmt.Errorf("stop spending: %w", err)
	}
	return nil
}

// Resume lets money go again. What is not stopped stays so.
func (s Switch) Resume() error {
	if err := os.Remove(s.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resume spending: %w", err)
	}
	if err := wholefile.SyncDir(s.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resume spending: %w", err)
	}
	return nil
}
