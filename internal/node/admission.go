package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/provider"
)

// admissionFile holds a word while no new jobs are taken, so that it counts for
// a provider that runs and for one that is started later.
func (c *Node) admissionFile() string { return filepath.Join(c.DataDir("provider"), "admission") }

// Admission reads the operator's word; what cannot be read takes no jobs.
func (c *Node) Admission() provider.Admission {
	a, _ := c.readAdmission()
	return a
}

// drainBy is when a provider that drains ends whatever is open; zero: never.
func (c *Node) drainBy() time.Time {
	_, by := c.readAdmission()
	return by
}

// pause writes that no jobs are taken, and why; the operator's resume ends it.
func (c *Node) pause(why string) error {
	return c.writeAdmission(string(provider.AdmissionPaused) + " " + why)
}

// PausedWhy is the reason that the node itself paused for, "" where its operator did.
func (c *Node) PausedWhy() string {
	text, _ := os.ReadFile(c.admissionFile())
	why, _ := strings.CutPrefix(strings.TrimSpace(string(text)), string(provider.AdmissionPaused)+" ")
	if why == strings.TrimSpace(string(text)) {
		return ""
	}
	return why
}

func (c *Node) readAdmission() (provider.Admission, time.Time) {
	text, err := os.ReadFile(c.admissionFile())
	if errors.Is(err, fs.ErrNotExist) {
		return provider.AdmissionOpen, time.Time{}
	}
	word, when, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err != nil || provider.Admission(word) != provider.AdmissionDraining {
		return provider.AdmissionPaused, time.Time{}
	}
	by, err := time.Parse(time.RFC3339, when)
	if err != nil { // none was said
		by = time.Time{}
	}
	return provider.AdmissionDraining, by
}

// SetAdmission writes the word, and by when a provider that drains has to end;
// zero: when nothing is open.
func (c *Node) SetAdmission(a provider.Admission, by time.Time) error {
	name := c.admissionFile()
	if a == provider.AdmissionOpen {
		err := os.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}

	text := string(a)
	if !by.IsZero() {
		text += " " + by.UTC().Format(time.RFC3339)
	}
	return c.writeAdmission(text)
}

func (c *Node) writeAdmission(text string) error {
	name := c.admissionFile()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	// Whole or not at all: it is read at any time.
	if err := os.WriteFile(name+".new", []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(name+".new", name)
}
