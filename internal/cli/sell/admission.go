package sell

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/provider"
)

type (
	providerPauseCmd  struct{}
	providerResumeCmd struct {
		Job string `help:"Take jobs of this type again, which provider drain --job ended." placeholder:"ID"`
	}
)

// Run stops the taking of jobs.
func (providerPauseCmd) Run(s *app.Streams, g *app.Globals) error {
	return admit(s, g, provider.AdmissionPaused, "paused: no new jobs are taken, open ones go on; lightwork provider resume takes them again")
}

// Run takes jobs again.
func (r providerResumeCmd) Run(s *app.Streams, g *app.Globals) error {
	if r.Job != "" {
		c, err := app.Open(s, g)
		if err != nil {
			return err
		}
		if err := c.Admission().ResumeJob(r.Job); err != nil {
			return err
		}
		fmt.Fprintln(s.Err, "lightwork: jobs of", r.Job, "are taken again, if nothing else is in their way")
		return nil
	}
	return admit(s, g, provider.AdmissionOpen, "jobs are taken again, by the provider that runs or by its next run")
}

func admit(s *app.Streams, g *app.Globals, a provider.Admission, told string) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if err := c.Admission().Set(a, time.Time{}); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork:", g.Spell(told))
	return nil
}
