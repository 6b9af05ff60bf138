package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration and point at what is wrong."`
}

type configCheckCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run reads the file as every other command does, and then what it names.
func (c configCheckCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := openNode(s, g)
	if err == nil {
		err = conf.ready()
	}
	if c.JSON {
		out := map[string]any{"file": g.Config, "ok": err == nil}
		if err != nil {
			out["error"] = err.Error()
		}
		if coded := (*advice.Error)(nil); errors.As(err, &coded) && coded.Hint != "" {
			out["hint"] = g.Spell(coded.Hint)
		}
		if jerr := app.PrintJSON(s.Out, out); jerr != nil || err == nil {
			return jerr
		}
		return advice.Exit(advice.ExitUsage)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s is fine\n  relays           %s\n  offers           %d\n  provider wallet  %s\n  buyer wallet     %s\n", g.Config,
		strings.Join(conf.Relays, " "), len(conf.Provider.Offers), cmp.Or(conf.Provider.Wallet.Backend, "none"), cmp.Or(conf.Buyer.Wallet.Backend, "none"))
	return nil
}

// ready says what a start would refuse.
func (c *node) ready() error {
	found := c.checkStart()
	start := c.ErrorOf(found)
	if start == nil {
		return allOf(c.checkOrganism())
	}

	// What the organism lacks of the configuration may follow from what is wrong there;
	// mistakes in its own file do not.
	errs := []error{start}
	missing := slices.ContainsFunc(found, func(bad *config.Problem) bool { return bad.Path == "$.organism" })
	if c.Organism != "" && !missing {
		if _, err := organism.Load(c.OrganismFile()); err != nil {
			errs = append(errs, advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err))
		}
	}
	return allOf(errs)
}

// allOf is several mistakes as one error, each with its own next step; nil if there
// are none.
func allOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var said []string
	for _, err := range errs {
		text := err.Error()
		if coded := (*advice.Error)(nil); errors.As(err, &coded) && coded.Hint != "" {
			text += "\n  hint: " + coded.Hint
		}
		said = append(said, text)
	}
	return advice.Usage("", "%s", strings.Join(said, "\n"))
}
