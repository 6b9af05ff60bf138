package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

func (d demoCmd) intro(say func(string, ...any), m *demoMarket) {
	if d.real() {
		say("Lightwork demo: two real lnd nodes of yours, one job\n")
	} else {
		say("Lightwork demo: one job, bought and sold on this machine")
		say("PLAY MONEY: the wallets are a toy ledger, nothing here is worth anything\n")
	}
	say("  relay     %s", m.config.Relays[0])
	if level := m.config.Sandbox.least(); d.schema() == schemas.SandboxRun && level != sandbox.LevelFull {
		say("  sandbox   confinement level %s: good enough for this job of ours, not for strangers' (lightwork doctor says why)", level)
	}
	if d.wasm {
		say("  agent     %s: its tool is WebAssembly, and reaches nothing but what it is given", demoAgent.ID)
	}
}

func (d demoCmd) outro(say func(string, ...any), m *demoMarket, out demoOutcome) {
	bundle := shellWord(fromHere(out.Bundle))
	say("\n  lightwork-verify, offline, on %s", bundle)
	for _, name := range receipts.ClaimNames() {
		say("    %-26s %s", name, out.Claims[name])
	}
	money := "play money"
	if d.real() {
		money = out.asset
	}
	if claimsCode(out.Claims) == exitOK {
		say("\nA paid job, proved, in %.1f s (%s). Receipt %s", float64(out.ElapsedMs)/1000, money, out.ReceiptID)
	} else {
		say("\nNOT everything that this demo promises was proved.")
	}
	say("\nTry next:")
	say("  %s --explain \\", program("lightwork-verify"))
	for i := 0; i < len(out.pins); i += 2 {
		say("    %s %s \\", out.pins[i], out.pins[i+1])
	}
	say("    %s", bundle)
	g := globals{Config: fromHere(filepath.Join(m.dir, defaultConfig))}
	say("  %s", g.spell("lightwork replay show "+bundle))
	say("  %s", g.spell("lightwork buyer list"))
}

// program is how to type a program of ours: its name if the path finds it,
// else where it lies from here.
func program(name string) string {
	beside := filepath.Join(filepath.Dir(self()), name)
	if found, err := exec.LookPath(name); err == nil && found == beside {
		return name
	}
	if here := fromHere(beside); here != name {
		return here
	}
	return "./" + name // a shell does not look here
}

// fromHere shortens a path that lies below the current folder.
func fromHere(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}
