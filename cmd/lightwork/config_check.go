package main

import (
	"fmt"
	"strings"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration and point at what is wrong."`
}

type configCheckCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run reads the file as every other command does.
func (c configCheckCmd) Run(s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if c.JSON {
		out := map[string]any{"file": g.Config, "ok": err == nil}
		if err != nil {
			out["error"] = err.Error()
		}
		if jerr := printJSON(s.out, out); jerr != nil || err == nil {
			return jerr
		}
		return exitCode(exitUsage)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is fine\n  relays           %s\n  offers           %d\n  provider wallet  %s\n  buyer wallet     %s\n", g.Config,
		strings.Join(conf.Relays, " "), len(conf.Provider.Offers), firstText(conf.Provider.Wallet.Backend, "none"), firstText(conf.Buyer.Wallet.Backend, "none"))
	return nil
}
