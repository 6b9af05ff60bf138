package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	doctorTimeout = 30 * time.Second
	relayTimeout  = 5 * time.Second
	clockSkewMax  = 30 * time.Second
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
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var all []finding
	conf, err := loadConfig(g.Config)
	if err != nil {
		all = append(all, finding{"configuration", "fail", printable(err.Error()), "lightwork init writes one; lightwork config check explains errors"})
	} else {
		all = append(all, finding{"configuration", "ok", g.Config, ""})
		all = append(all, checkKeys(conf)...)
		all = append(all, checkRelays(ctx, conf)...)
		all = append(all, checkWallets(ctx, conf, s)...)
	}
	all = append(all, checkDisk(conf), checkVerifier())
	all = append(all, checkSandbox(ctx)...)
	if c.JSON {
		if err := printJSON(s.out, all); err != nil {
			return err
		}
	} else {
		for _, f := range all {
			fmt.Fprintf(s.out, "%-5s %-16s %s\n", f.State, f.Check, printable(f.Detail))
			if f.Fix != "" && f.State != "ok" {
				fmt.Fprintf(s.out, "      %-16s -> %s\n", "", f.Fix)
			}
		}
	}
	for _, f := range all {
		if f.State == "fail" {
			return exitCode(exitFailed)
		}
	}
	return nil
}

func checkKeys(c *config) []finding {
	var all []finding
	for _, k := range []struct{ name, file string }{
		{"provider key", c.Identity.ProviderKeyFile}, {"buyer key", c.Identity.BuyerKeyFile},
	} {
		key, err := relay.LoadKey(c.path(k.file))
		if err != nil {
			all = append(all, finding{k.name, "fail", err.Error(), "lightwork init makes keys; chmod 600 keeps them yours"})
			continue
		}
		all = append(all, finding{k.name, "ok", key.PublicKey(), ""})
	}
	if _, err := rootSecret(c.path(c.Identity.RootSecretFile)); err != nil {
		return append(all, finding{"preimage secret", "fail", err.Error(), "lightwork init makes one"})
	}
	return append(all, finding{"preimage secret", "ok", "readable by its owner only", ""})
}

// checkRelays asks each relay for its information document; the answer's date
// tells how our clock stands.
func checkRelays(ctx context.Context, c *config) []finding {
	var all []finding
	for _, r := range c.Relays {
		date, took, err := askRelay(ctx, r)
		if err != nil {
			all = append(all, finding{"relay", "fail", fmt.Sprintf("%s: %v", r, err), "start it (lightwork relay) or name another under relays"})
			continue
		}
		all = append(all, finding{"relay", "ok", fmt.Sprintf("%s answers in %d ms", r, took.Milliseconds()), ""})
		if skew := time.Since(date).Abs(); !date.IsZero() && skew > clockSkewMax {
			all = append(all, finding{"clock", "warn", fmt.Sprintf("%v apart from %s", skew.Round(time.Second), r), "set the clock by NTP: events from the future are refused"})
		}
	}
	for _, b := range c.blobServers() {
		all = append(all, checkBlobs(ctx, b))
	}
	return all
}

// checkBlobs asks for a blob that nobody has: a Blossom server says 404.
func checkBlobs(ctx context.Context, server string) finding {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	const fix = "results need a Blossom server: name one under blobs, or run lightwork relay"
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, server+"/"+strings.Repeat("0", 64), nil)
	if err != nil {
		return finding{"blob server", "fail", err.Error(), fix}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return finding{"blob server", "fail", fmt.Sprintf("%s: %v", server, errors.Unwrap(err)), fix}
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusOK {
		return finding{"blob server", "warn", fmt.Sprintf("%s answers %d where a Blossom server says 404", server, resp.StatusCode), fix}
	}
	return finding{"blob server", "ok", server, ""}
}

func askRelay(ctx context.Context, ws string) (date time.Time, took time.Duration, err error) {
	u, err := url.Parse(ws)
	if err != nil {
		return date, 0, err
	}
	u.Scheme = "http" + strings.TrimPrefix(u.Scheme, "ws")
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return date, 0, err
	}
	req.Header.Set("Accept", "application/nostr+json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return date, 0, errors.Unwrap(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return date, 0, fmt.Errorf("no relay there: HTTP %d", resp.StatusCode)
	}
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return date, time.Since(began), nil
}

func checkWallets(ctx context.Context, c *config, s *streams) []finding {
	var all []finding
	for _, w := range []struct {
		role string
		conf walletConfig
	}{{"provider", c.Provider.Wallet}, {"buyer", c.Buyer.Wallet}} {
		all = append(all, checkWallet(ctx, c, w.role, w.conf, s))
	}
	return all
}

func checkWallet(ctx context.Context, c *config, role string, conf walletConfig, s *streams) finding {
	name := role + " wallet"
	if conf.Backend == "" || conf.Backend == "none" {
		return finding{name, "warn", "none: only free jobs", "set " + role + ".wallet.backend to lnd"}
	}
	w, closeWallet, err := openWallet(ctx, c, conf, role, s.log)
	if err != nil {
		hint := &codedError{}
		_ = errors.As(err, &hint)
		return finding{name, "fail", err.Error(), hint.hint}
	}
	defer closeWallet()
	node, err := w.Node(ctx)
	if err != nil {
		return finding{name, "fail", err.Error(), "is the node running and unlocked? lightwork wallet permissions prints the macaroon it needs"}
	}
	if node.Network == payments.Play {
		return finding{name, "warn", "PLAY MONEY, worth nothing: " + node.PubKey, "set " + role + ".wallet.backend to lnd to use real money"}
	}
	return finding{name, "ok", fmt.Sprintf("%s on %s", node.PubKey, node.Network), ""}
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

func checkSandbox(ctx context.Context) []finding {
	var all []finding
	for _, f := range sandbox.Check(ctx, sandbox.Options{Init: sandboxInitCommand()}) {
		state := "ok"
		if !f.OK {
			state = "fail"
		}
		all = append(all, finding{"sandbox " + f.Name, state, f.Detail, f.Fix})
	}
	return all
}
