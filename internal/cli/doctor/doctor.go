// Package doctor shows what stands in the way of selling or buying, and the next
// step.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/health"
)

const doctorTimeout = 30 * time.Second

// Cmd is lightwork doctor.
type Cmd struct {
	JSON bool `help:"Print JSON."`
}

// Run checks everything that a node depends on and says what to do. Without a
// configuration it checks the machine alone.
func (c Cmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	builtin.TakeScope(ctx, s.Log)
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()

	var all []health.Finding
	conf, err := app.Open(s, g)
	if err != nil {
		fix := "correct the file"
		if hint := (*advice.Error)(nil); errors.As(err, &hint) && hint.Hint != "" {
			fix = hint.Hint
		}
		all = append(all, health.Finding{Check: "configuration", State: "fail", Detail: display.Printable(err.Error()), Fix: fix})
	} else {
		all = append(all, health.Finding{Check: "configuration", State: "ok", Detail: g.Config})
		all = append(all, health.CheckKeys(conf.Config)...)
		all = append(all, health.CheckRelays(ctx, conf.Config)...)
		all = append(all, health.CheckWallets(ctx, conf.Config, s.Log)...)
		all = append(all, health.CheckSpending(conf))
		all = append(all, health.CheckAgents(ctx, conf)...)
		all = append(all, health.CheckOffers(ctx, conf)...)
		all = append(all, health.CheckRoles(ctx, conf)...)
		all = append(all, health.CheckEndpoint(ctx, conf.Config)...)
		all = append(all, health.CheckName(ctx, conf.Config, conf.Market().Names())...)
		if why := conf.Admission().PausedWhy(); why != "" {
			all = append(all, health.Finding{Check: "admission", State: "fail", Detail: "no jobs are taken: " + why, Fix: "stop one of the two nodes, then lightwork provider resume takes jobs again with the other"})
		}
		all = append(all, health.CheckNetwork(conf.Config)...)
	}

	dir, least := ".", sandbox.LevelFull
	if conf != nil {
		dir, least = filepath.Dir(conf.DataDir("provider")), conf.Sandbox.Least()
	}
	all = append(all, health.CheckDisk(dir), health.CheckVerifier())
	_, tried := health.CheckSandbox(ctx, least)
	if conf != nil && !conf.Sells() {
		tried = health.NotNeeded(tried)
	}
	all = append(all, tried...)
	for i := range all {
		all[i].Detail, all[i].Fix = app.Say(all[i].Detail), g.Spell(all[i].Fix)
	}
	if c.JSON {
		if err := app.PrintJSON(s.Out, all); err != nil {
			return err
		}
	} else if err := PrintFindings(s.Out, all); err != nil {
		return err
	}

	if len(health.Failures(all)) > 0 {
		return advice.Exit(advice.ExitFailed)
	}
	return nil
}

// PrintFindings writes a line for each finding, and its next step.
func PrintFindings(w io.Writer, all []health.Finding) error {
	width, _, isScreen := app.ScreenSize(w)
	below := strings.Repeat(" ", 23)
	fit := func(text string) string {
		if !isScreen {
			return text
		}
		return app.Wrapped(text, below, width)
	}

	var text strings.Builder
	for _, f := range all {
		fmt.Fprintln(&text, strings.TrimRight(fmt.Sprintf("%-5s %-16s %s", f.State, f.Check, fit(display.Printable(f.Detail))), " "))
		if f.Fix != "" && f.State != "ok" {
			fmt.Fprintln(&text, below+fit("-> "+f.Fix))
		}
	}

	_, err := io.WriteString(w, text.String())
	return err
}
