// Package health checks what a node depends on, and says what to do.
package health

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/relay"
)

// diskFreeMin is what a node needs to write.
const diskFreeMin = 1 << 30

// Finding is one thing that was checked.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Failures are the findings that keep a node from its work.
func Failures(all []Finding) []Finding {
	var failed []Finding
	for _, f := range all {
		if f.State == "fail" {
			failed = append(failed, f)
		}
	}
	return failed
}

// NotNeeded makes of what fails something to know: nothing here depends on it.
func NotNeeded(all []Finding) []Finding {
	for i, f := range all {
		if f.State == "fail" {
			all[i] = Finding{f.Check, "warn", f.Detail + "; only who sells needs this", f.Fix}
		}
	}
	return all
}

// CheckKeys reads the keys of both roles and the preimage secret.
func CheckKeys(c *config.Config) []Finding {
	var all []Finding
	known := map[string]string{}
	for _, k := range []struct{ name, role string }{
		{"provider key", "provider"}, {"buyer key", "buyer"},
	} {
		key, err := keys.Read(c, k.role)
		if err != nil {
			missing := []Finding{unreadable(k.name, err)}
			if k.role == "provider" && !c.Sells() {
				missing = NotNeeded(missing)
			}
			all = append(all, missing...)
			continue
		}

		f := Finding{k.name, "ok", cmp.Or(display.NPub(key.Public), "locked") + " (" + key.Kept + ")", ""}
		if other := known[key.Public]; other != "" && key.Public != "" {
			f = Finding{k.name, "warn", "the same as the " + other, "use two keys: with one, a receipt shows a deal with yourself"}
		}
		known[key.Public] = k.name
		all = append(all, f)
	}

	if _, err := keys.RootSecret(c.Path(c.Identity.RootSecretFile)); err != nil {
		missing := []Finding{unreadable("preimage secret", err)}
		if !c.Sells() {
			missing = NotNeeded(missing)
		}
		return append(all, missing...)
	}

	return append(all, Finding{"preimage secret", "ok", "readable by its owner only", ""})
}

// unreadable is a secret's file that cannot be used. What to do is what every
// other command says: a new key in the place of a lost one loses money.
func unreadable(name string, err error) Finding {
	f := Finding{name, "fail", strings.TrimPrefix(err.Error(), name+": "), ""}
	if hint := (*advice.Error)(nil); errors.As(err, &hint) && !errors.Is(err, relay.ErrKeyMode) {
		f.Fix = hint.Hint
	}
	return f
}

// CheckDisk looks at the disk that a folder is on, or will be.
func CheckDisk(dir string) Finding {
	for dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}

	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Finding{"disk", "warn", err.Error(), ""}
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < diskFreeMin {
		return Finding{"disk", "fail", fmt.Sprintf("%d MiB free in %s", free>>20, dir), "make room: a node that cannot write stops taking jobs"}
	}
	return Finding{"disk", "ok", fmt.Sprintf("%d GiB free in %s", free>>30, dir), ""}
}

// CheckSpending says which wallets pay, and whether the owner keeps their money back.
func CheckSpending(n *node.Node) Finding {
	var pay []string
	for _, side := range []struct{ role, what string }{{"buyer", "purchases"}, {"provider", "refunds"}} {
		if w := n.WalletOf(side.role); !w.None() {
			pay = append(pay, "the "+side.role+"'s wallet ("+w.Backend+") pays "+side.what)
		}
	}
	if _, err := os.Stat(n.DataDir("")); errors.Is(err, fs.ErrNotExist) { // the first start makes it
		return Finding{"spending", "ok", cmp.Or(strings.Join(pay, "; "), "no wallet pays anything"), ""}
	}
	if err := n.SpendingStopped(); err != nil {
		return Finding{"spending", "warn", err.Error(), advice.ResumeSpending + " lets money go again"}
	}
	return Finding{"spending", "ok", cmp.Or(strings.Join(pay, "; "), "no wallet pays anything"), ""}
}

// CheckVerifier looks for the program that proves receipts.
func CheckVerifier() Finding {
	path, err := display.FindVerifier()
	if err != nil {
		return Finding{"verifier", "warn", err.Error(), "make build makes both programs"}
	}
	return Finding{"verifier", "ok", path, ""}
}
