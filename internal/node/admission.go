package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// Admission is whether the provider takes new jobs. Its file holds a word while it
// takes none, so that the word counts for a provider that runs and for one that is
// started later.
//
// Beside it a folder has a file for each job type of which no new jobs are taken.
type Admission struct{ file, drained string }

// Admission says whether the provider of this node takes jobs.
func (c *Node) Admission() Admission {
	dir := c.DataDir("provider")
	return Admission{filepath.Join(dir, "admission"), filepath.Join(dir, "drained")}
}

// Word is the operator's word; what cannot be read takes no jobs.
func (a Admission) Word() provider.Admission {
	word, _ := a.read()
	return word
}

// drainBy is when a provider that drains ends whatever is open; zero: never.
func (a Admission) drainBy() time.Time {
	_, by := a.read()
	return by
}

// pause writes that no jobs are taken, and why, until the operator resumes.
func (a Admission) pause(why string) error {
	return a.write(string(provider.AdmissionPaused) + " " + why)
}

// PausedWhy is the reason that the node itself paused for, "" where its operator did.
func (a Admission) PausedWhy() string {
	text, _ := os.ReadFile(a.file)
	why, _ := strings.CutPrefix(strings.TrimSpace(string(text)), string(provider.AdmissionPaused)+" ")
	if why == strings.TrimSpace(string(text)) {
		return ""
	}
	return why
}

// DrainJob takes no new jobs of a type until ResumeJob; open ones go on.
func (a Admission) DrainJob(schemaID string) error {
	file, err := a.jobFile(schemaID)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.drained, 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o600)
}

// ResumeJob takes jobs of a type again.
func (a Admission) ResumeJob(schemaID string) error {
	file, err := a.jobFile(schemaID)
	if err != nil {
		return err
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// IsDrained reports that no new jobs of a type are taken; of one whose file cannot be
// looked for none are.
func (a Admission) IsDrained(schemaID string) bool {
	_, err := os.Lstat(filepath.Join(a.drained, schemaID))
	return !errors.Is(err, fs.ErrNotExist)
}

func (a Admission) jobFile(schemaID string) (string, error) {
	s, ok := schemas.Lookup(schemaID)
	if !ok {
		return "", advice.Usage(advice.ListSchemas+" shows them", "%q is no job type", schemaID)
	}
	return filepath.Join(a.drained, string(s.ID)), nil
}

func (a Admission) read() (provider.Admission, time.Time) {
	text, err := os.ReadFile(a.file)
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

// Set writes the word, and by when a provider that drains has to end;
// zero: when nothing is open.
func (a Admission) Set(word provider.Admission, by time.Time) error {
	if word == provider.AdmissionOpen {
		err := os.Remove(a.file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}

	text := string(word)
	if !by.IsZero() {
		text += " " + by.UTC().Format(time.RFC3339)
	}
	return a.write(text)
}

func (a Admission) write(text string) error {
	if err := os.MkdirAll(filepath.Dir(a.file), 0o700); err != nil {
		return err
	}
	// Whole or not at all: it is read at any time.
	if err := os.WriteFile(a.file+".new", []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", a.file, err)
	}
	return os.Rename(a.file+".new", a.file)
}
