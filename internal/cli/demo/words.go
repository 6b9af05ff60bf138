package demo

import (
	"path/filepath"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

func (d Cmd) intro(say func(string, ...any), m *demoMarket) {
	if d.real() {
		say("Lightwork demo: two real lnd nodes of yours, one job\n")
	} else {
		say("Lightwork demo: one job, bought and sold on this machine")
		say("PLAY MONEY: the wallets are a toy ledger, nothing here is worth anything\n")
	}

	say("  relay     %s", m.config.Relays[0])
	if level := m.config.Sandbox.Least(); d.schema() == schemas.SandboxRun && level != sandbox.LevelFull {
		say("  sandbox   confinement level %s: good enough for this job of ours, not for strangers' (lightwork doctor says why)", level)
	}
	if d.wasm {
		say("  agent     %s: its tool is WebAssembly, and reaches nothing but what it is given", demoAgent.ID)
	}
}

func (d Cmd) outro(say func(string, ...any), m *demoMarket, out Outcome) {
	bundle := display.ShellWord(display.FromHere(out.Bundle))
	say("\n  lightwork-verify, offline, on %s", bundle)
	for _, name := range receipts.ClaimNames() {
		say("    %-26s %s", name, out.Claims[name])
	}
	money := "play money"
	if d.real() {
		money = out.asset
	}
	if ClaimsCode(out.Claims) == advice.ExitOK {
		say("\nA paid job, proved, in %.1f s (%s). Receipt %s", float64(out.ElapsedMs)/1000, money, out.ReceiptID)
	} else {
		say("\nNOT everything that this demo promises was proved.")
	}

	say("\nTry next:")
	say("  %s --explain \\", display.Program("lightwork-verify"))
	for i := 0; i < len(out.pins); i += 2 {
		say("    %s %s \\", out.pins[i], out.pins[i+1])
	}
	say("    %s", bundle)
	g := app.Globals{Config: display.FromHere(filepath.Join(m.dir, config.DefaultFile))}
	say("  %s", g.Spell("lightwork replay show "+bundle))
	say("  %s", g.Spell("lightwork buyer list"))
}
