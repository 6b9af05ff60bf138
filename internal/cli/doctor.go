package cli

import (
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
	"github.com/lightwork-market/lightwork/relay"
)

const (
	doctorTimeout = 30 * time.Second
	diskFreeMin   = 1 << 30
)

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
func (c doctorCmd) Run(ctx context.Context, s *streams, g *globals) error {
	takeScope(ctx, s.log)
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var all []finding
	conf, err := loadConfig(g.Config)
	if err != nil {
		fix := "correct the file"
		if hint := (*codedError)(nil); errors.As(err, &hint) && hint.hint != "" {
			fix = hint.hint
		}
		all = append(all, finding{"configuration", "fail", printable(err.Error()), fix})
	} else {
		all = append(all, finding{"configuration", "ok", g.Config, ""})
		all = append(all, checkKeys(conf)...)
		all = append(all, checkRelays(ctx, conf)...)
		all = append(all, checkWallets(ctx, conf, s)...)
		all = append(all, checkAgents(ctx, conf)...)
		all = append(all, checkOffers(ctx, conf)...)
		all = append(all, checkEndpoint(ctx, conf)...)
		all = append(all, checkName(ctx, conf, conf.names())...)
		if why := conf.pausedWhy(); why != "" {
			all = append(all, finding{"admission", "fail", "no jobs are taken: " + why, "stop one of the two nodes, then lightwork provider resume takes jobs again with the other"})
		}
		all = append(all, checkNetwork(conf)...)
	}
	all = append(all, checkDisk(conf), checkVerifier())
	least := sandbox.LevelFull
	if conf != nil {
		least = conf.Sandbox.least()
	}
	_, tried := checkSandbox(ctx, least)
	if conf != nil && !conf.sells() {
		tried = notNeeded(tried)
	}
	all = append(all, tried...)
	for i := range all {
		all[i].Fix = g.spell(all[i].Fix)
	}
	if c.JSON {
		if err := printJSON(s.out, all); err != nil {
			return err
		}
	} else if err := printFindings(s.out, all); err != nil {
		return err
	}
	if len(failures(all)) > 0 {
		return exitCode(ExitFailed)
	}
	return nil
}

func printFindings(w io.Writer, all []finding) error {
	width, _, isScreen := screenSize(w)
	below := strings.Repeat(" ", 23)
	fit := func(text string) string {
		if !isScreen {
			return text
		}
		return wrapped(text, below, width)
	}
	var text strings.Builder
	for _, f := range all {
		fmt.Fprintln(&text, strings.TrimRight(fmt.Sprintf("%-5s %-16s %s", f.State, f.Check, fit(printable(f.Detail))), " "))
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

// sells reports whether the node is set up to sell anything. Who only buys needs
// neither a provider's keys nor a sandbox.
func (c *config) sells() bool { return len(c.Provider.Offers) > 0 }

// notNeeded makes of what fails something to know: nothing here depends on it.
func notNeeded(all []finding) []finding {
	for i, f := range all {
		if f.State == "fail" {
			all[i] = finding{f.Check, "warn", f.Detail + "; only who sells needs this", f.Fix}
		}
	}
	return all
}

func checkKeys(c *config) []finding {
	var all []finding
	known := map[string]string{}
	for _, k := range []struct{ name, role string }{
		{"provider key", "provider"}, {"buyer key", "buyer"},
	} {
		key, err := c.readKey(k.role)
		if err != nil {
			missing := []finding{unreadable(k.name, err)}
			if k.role == "provider" && !c.sells() {
				missing = notNeeded(missing)
			}
			all = append(all, missing...)
			continue
		}
		f := finding{k.name, "ok", firstText(npub(key.public), "locked") + " (" + key.kept + ")", ""}
		if other := known[key.public]; other != "" && key.public != "" {
			f = finding{k.name, "warn", "the same as the " + other, "use two keys: with one, a receipt shows a deal with yourself"}
		}
		known[key.public] = k.name
		all = append(all, f)
	}
	if _, err := rootSecret(c.path(c.Identity.RootSecretFile)); err != nil {
		missing := []finding{unreadable("preimage secret", err)}
		if !c.sells() {
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
	if hint := (*codedError)(nil); errors.As(err, &hint) && !errors.Is(err, relay.ErrKeyMode) {
		f.Fix = hint.hint
	}
	return f
}

func checkDisk(c *config) finding {
	dir := "."
	if c != nil {
		dir = filepath.Dir(c.dataDir("provider"))
	}
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
