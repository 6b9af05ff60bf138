package setup

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// ConfigCmd is lightwork config.
type ConfigCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration and point at what is wrong."`
}

type configCheckCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run reads the file as every other command does, and then what it names.
func (c configCheckCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err == nil {
		err = conf.Ready()
	}
	if c.JSON {
		out := map[string]any{"file": g.Config, "ok": err == nil}
		if err != nil {
			out["error"] = app.Say(err.Error()) // several mistakes have their hints in it
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
