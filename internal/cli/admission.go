package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// accessConfig says who may buy: npub or hex keys.
type accessConfig struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
	// Trust lets in whom the keys in Of follow; Of left out is the provider's own key.
	Trust provider.Trust `yaml:"trust"`
	Of    []string       `yaml:"of"`
}

func (c *config) checkAccess() *configError {
	for name, keys := range map[string][]string{"allow": c.Provider.Access.Allow, "deny": c.Provider.Access.Deny, "of": c.Provider.Access.Of} {
		for i, k := range keys {
			if _, err := receipts.ParseKey(k); err != nil {
				return &configError{fmt.Sprintf("$.provider.access.%s[%d]", name, i), "must be an npub1... or 64 hex digits"}
			}
		}
	}
	switch c.Provider.Access.Trust {
	case provider.TrustNobody, provider.TrustFollows, provider.TrustFollows2:
		return nil
	}
	return &configError{"$.provider.access.trust", "must be follows or follows2"}
}

func (c *config) access() provider.Access {
	hex := func(keys []string) (out []string) {
		for _, k := range keys {
			key, _ := receipts.ParseKey(k) // checked before
			out = append(out, key)
		}
		return out
	}
	a := c.Provider.Access
	return provider.Access{Allow: hex(a.Allow), Deny: hex(a.Deny), Trust: a.Trust, Of: hex(a.Of)}
}

// admissionFile holds a word while no new jobs are taken, so that it counts for
// a provider that runs and for one that is started later.
func (c *config) admissionFile() string { return filepath.Join(c.dataDir("provider"), "admission") }

// admission reads the operator's word; what cannot be read takes no jobs.
func (c *config) admission() provider.Admission {
	a, _ := c.readAdmission()
	return a
}

// drainBy is when a provider that drains ends whatever is open; zero: never.
func (c *config) drainBy() time.Time {
	_, by := c.readAdmission()
	return by
}

// pause writes that no jobs are taken, and why; the operator's resume ends it.
func (c *config) pause(why string) error {
	return c.writeAdmission(string(provider.AdmissionPaused) + " " + why)
}

// pausedWhy is the reason that the node itself paused for, "" where its operator did.
func (c *config) pausedWhy() string {
	text, _ := os.ReadFile(c.admissionFile())
	why, _ := strings.CutPrefix(strings.TrimSpace(string(text)), string(provider.AdmissionPaused)+" ")
	if why == strings.TrimSpace(string(text)) {
		return ""
	}
	return why
}

func (c *config) readAdmission() (provider.Admission, time.Time) {
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

// setAdmission writes the word, and by when a provider that drains has to end;
// zero: when nothing is open.
func (c *config) setAdmission(a provider.Admission, by time.Time) error {
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

func (c *config) writeAdmission(text string) error {
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

type (
	providerPauseCmd  struct{}
	providerResumeCmd struct{}
)

// Run stops the taking of jobs.
func (providerPauseCmd) Run(s *streams, g *globals) error {
	return admit(s, g, provider.AdmissionPaused, "paused: no new jobs are taken, open ones go on; lightwork provider resume takes them again")
}

// Run takes jobs again.
func (providerResumeCmd) Run(s *streams, g *globals) error {
	return admit(s, g, provider.AdmissionOpen, "jobs are taken again, by the provider that runs or by its next run")
}

func admit(s *streams, g *globals, a provider.Admission, told string) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	if err := c.setAdmission(a, time.Time{}); err != nil {
		return err
	}
	fmt.Fprintln(s.err, "lightwork:", g.spell(told))
	return nil
}
