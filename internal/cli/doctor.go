package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/relay"
)

const doctorTimeout = 30 * time.Second

// diskFreeMin is what a node needs to write.
const diskFreeMin = 1 << 30

type doctorCmd struct {
	JSON bool `help:"Print JSON."`
}

// finding is one thing that was checked.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Run checks everything that a node depends on and says what to do. Without a
// configuration it checks the machine alone.
func (c doctorCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	takeScope(ctx, s.Log)
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var all []finding
	conf, err := openNode(s, g)
	if err != nil {
		fix := "correct the file"
		if hint := (*advice.Error)(nil); errors.As(err, &hint) && hint.Hint != "" {
			fix = hint.Hint
		}
		all = append(all, finding{"configuration", "fail", display.Printable(err.Error()), fix})
	} else {
		all = append(all, finding{"configuration", "ok", g.Config, ""})
		all = append(all, checkKeys(conf.Config)...)
		all = append(all, checkRelays(ctx, conf.Config)...)
		all = append(all, checkWallets(ctx, conf.Config, s.Log)...)
		all = append(all, checkAgents(ctx, conf)...)
		all = append(all, checkOffers(ctx, conf)...)
		all = append(all, checkEndpoint(ctx, conf.Config)...)
		all = append(all, checkName(ctx, conf.Config, conf.names())...)
		if why := conf.pausedWhy(); why != "" {
			all = append(all, finding{"admission", "fail", "no jobs are taken: " + why, "stop one of the two nodes, then lightwork provider resume takes jobs again with the other"})
		}
		all = append(all, checkNetwork(conf.Config)...)
	}

	dir, least := ".", sandbox.LevelFull
	if conf != nil {
		dir, least = filepath.Dir(conf.DataDir("provider")), conf.Sandbox.Least()
	}
	all = append(all, checkDisk(dir), checkVerifier())
	_, tried := checkSandbox(ctx, least)
	if conf != nil && !conf.Sells() {
		tried = notNeeded(tried)
	}
	all = append(all, tried...)
	for i := range all {
		all[i].Fix = g.Spell(all[i].Fix)
	}
	if c.JSON {
		if err := app.PrintJSON(s.Out, all); err != nil {
			return err
		}
	} else if err := printFindings(s.Out, all); err != nil {
		return err
	}
	if len(failures(all)) > 0 {
		return advice.Exit(advice.ExitFailed)
	}
	return nil
}

func printFindings(w io.Writer, all []finding) error {
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

func failures(all []finding) []finding {
	var failed []finding
	for _, f := range all {
		if f.State == "fail" {
			failed = append(failed, f)
		}
	}
	return failed
}

// notNeeded makes of what fails something to know: nothing here depends on it.
func notNeeded(all []finding) []finding {
	for i, f := range all {
		if f.State == "fail" {
			all[i] = finding{f.Check, "warn", f.Detail + "; only who sells needs this", f.Fix}
		}
	}
	return all
}

func checkKeys(c *config.Config) []finding {
	var all []finding
	known := map[string]string{}
	for _, k := range []struct{ name, role string }{
		{"provider key", "provider"}, {"buyer key", "buyer"},
	} {
		key, err := readKey(c, k.role)
		if err != nil {
			missing := []finding{unreadable(k.name, err)}
			if k.role == "provider" && !c.Sells() {
				missing = notNeeded(missing)
			}
			all = append(all, missing...)
			continue
		}
		f := finding{k.name, "ok", cmp.Or(display.NPub(key.public), "locked") + " (" + key.kept + ")", ""}
		if other := known[key.public]; other != "" && key.public != "" {
			f = finding{k.name, "warn", "the same as the " + other, "use two keys: with one, a receipt shows a deal with yourself"}
		}
		known[key.public] = k.name
		all = append(all, f)
	}
	if _, err := rootSecret(c.Path(c.Identity.RootSecretFile)); err != nil {
		missing := []finding{unreadable("preimage secret", err)}
		if !c.Sells() {
			missing = notNeeded(missing)
		}
		return append(all, missing...)
	}
	return append(all, finding{"preimage secret", "ok", "readable by its owner only", ""})
}

// unreadable is a secret's file that cannot be used. What to do is what every
// other command says: a new key in the place of a lost one loses money.
func unreadable(name string, err error) finding {
	f := finding{name, "fail", strings.TrimPrefix(err.Error(), name+": "), ""}
	if hint := (*advice.Error)(nil); errors.As(err, &hint) && !errors.Is(err, relay.ErrKeyMode) {
		f.Fix = hint.Hint
	}
	return f
}

// checkDisk looks at the disk that a folder is on, or will be.
func checkDisk(dir string) finding {
	for dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return finding{"disk", "warn", err.Error(), ""}
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < diskFreeMin {
		return finding{"disk", "fail", fmt.Sprintf("%d MiB free in %s", free>>20, dir), "make room: a node that cannot write stops taking jobs"}
	}
	return finding{"disk", "ok", fmt.Sprintf("%d GiB free in %s", free>>30, dir), ""}
}

func checkVerifier() finding {
	path, err := findVerifier()
	if err != nil {
		return finding{"verifier", "warn", err.Error(), "make build makes both programs"}
	}
	return finding{"verifier", "ok", path, ""}
}
