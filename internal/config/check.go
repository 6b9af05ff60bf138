package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// IsAddress reports an address that the node may name to strangers.
func IsAddress(raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host != "" && u.User == nil && (u.Port() == "" || isPort(u.Port()))
}

// isPort reports a number, or a service's name, that a program can listen on.
func isPort(text string) bool {
	_, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", text)
	return err == nil
}

// checkListen wants HOST:PORT, or nothing.
func checkListen(path, addr, example string) *Problem {
	if addr == "" {
		return nil
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || !isPort(port) {
		return Mistake(path, fmt.Sprintf("must be an address such as %s, not %q", example, addr))
	}
	return nil
}

// Check finds every value that cannot be used.
func (c *Config) Check() []*Problem {
	var all []*Problem
	add := func(found ...*Problem) {
		for _, bad := range found {
			if bad != nil {
				all = append(all, bad)
			}
		}
	}

	if c.Version != 1 {
		add(Mistake("$.version", "must be 1"))
	}
	if len(c.Relays) == 0 {
		add(Mistake("$.relays", "at least one relay is needed"))
	}

	for i, r := range c.Relays {
		if at := fmt.Sprintf("$.relays[%d]", i); !IsAddress(r, "ws", "wss") {
			add(Mistake(at, "must be a ws:// or wss:// address without user or password: it is published; a port is at most 65535"))
		}
	}

	for i, b := range c.Blobs {
		if at := fmt.Sprintf("$.blobs[%d]", i); !IsAddress(b, "http", "https") {
			add(Mistake(at, "must be an http:// or https:// address without user or password: it is published; a port is at most 65535"))
		}
	}

	if name := c.Provider.NIP05; name != "" {
		if _, _, err := nip05.Split(name); err != nil {
			add(Mistake("$.provider.nip05", fmt.Sprintf("must be a name such as me@example.com, in lower case, not %q", name)))
		}
	}

	add(c.Provider.Wallet.check("$.provider.wallet"), c.Buyer.Wallet.check("$.buyer.wallet"))

	sold := map[string]bool{}
	for i, o := range c.Provider.Offers {
		at := fmt.Sprintf("$.provider.offers[%d]", i)
		if sold[o.Schema] { // one of two prices would hold, and nothing would say which
			add(Mistake(at+".schema", "is on offer above already: a job type has one entry, with all its modes"))
			continue
		}
		sold[o.Schema] = true
		add(c.checkOffer(at, o))
	}

	for i, kind := range c.Provider.Kinds {
		if kind < 5000 || kind > 5999 {
			add(Mistake(fmt.Sprintf("$.provider.kinds[%d]", i), "must be a kind of request, 5000 to 5999"))
		}
	}

	add(c.Provider.Lifecycle.check())
	for i, a := range c.Agents {
		add(a.check(fmt.Sprintf("$.agents[%d]", i)))
	}

	add(c.Alerts.check())
	add(checkLoopback("$.observe.listen", c.Observe.Listen))
	add(c.checkLimits()...)
	add(c.Retention.check()...)
	add(c.Relay.check(), c.Sandbox.check(), c.checkJudge(), c.checkAccess(), c.checkOnchain(), c.checkApprovals())
	add(c.Model.check(), checkModes("$.buyer.modes", c.Buyer.Modes))
	return all
}

func validToolID(id string) bool {
	_, _, ok := wire.ToolID(id).Split()
	return ok
}

func (a Agent) check(at string) *Problem {
	switch {
	case a.Dir == "":
		return Mistake(at, "dir is needed: the folder with opensentience.agent.json")
	case a.UID < 0 || a.GID < 0:
		return Mistake(at, "uid and gid cannot be negative")
	}

	for j, name := range a.Tools {
		if !wire.ValidToolName(name) {
			return Mistake(fmt.Sprintf("%s.tools[%d]", at, j), "must be a tool's name, without its agent")
		}
	}

	for j, name := range a.EnvFrom {
		if !ValidEnvName(name) {
			return Mistake(fmt.Sprintf("%s.env_from[%d]", at, j), "must be the name of a variable, and not one of the protocol's")
		}
	}
	return nil
}

// ValidEnvName reports the name of a variable that an agent may be given.
func ValidEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00") && !strings.HasPrefix(name, "OPENSENTIENCE_")
}

func (m Model) check() *Problem {
	switch {
	case m == Model{}:
		return nil
	case m.BaseURL == "":
		return Mistake("$.model", "base_url is needed: what comes before /chat/completions")
	case m.KeyFile != "" && m.KeyEnv != "":
		return Mistake("$.model.key_env", "name a file or a variable, not both")
	case m.Name == "" && m.Embed == "":
		return Mistake("$.model", "name or embed is needed: what to ask the endpoint for")
	}

	if err := (model.Config{BaseURL: m.BaseURL, AllowHTTP: m.AllowHTTP}).CheckURL(); err != nil {
		return Mistake("$.model.base_url", err.Error())
	}
	return nil
}

// checkLimits refuses what cannot be meant. In the buyer's budget 0 is no limit.
// Where 0 would stand for a default, a 0 that is written is refused: who writes
// it means none.
func (c *Config) checkLimits() []*Problem {
	var all []*Problem
	if bad := (*provider.LimitError)(nil); errors.As(c.Provider.Limits.Provider().Check(), &bad) {
		all = append(all, Mistake("$.provider.limits."+bad.Name, bad.Why))
	}

	l := c.Provider.Limits
	if l.TreeMB < 0 || l.TreeBytes() > tree.MaxBytes {
		all = append(all, Mistake("$.provider.limits.tree_mb", fmt.Sprintf("must be from 1 to %d", tree.MaxBytes>>20)))
	}
	for name, value := range map[string]int64{
		"provider.limits.concurrent": int64(l.Concurrent), "provider.limits.queue": int64(l.Queue), "provider.limits.queue_per_buyer": int64(l.QueuePerBuyer),
		"provider.limits.unpaid": int64(l.Unpaid), "provider.limits.unpaid_per_buyer": int64(l.UnpaidPerBuyer), "provider.limits.held_per_buyer": int64(l.HeldPerBuyer),
		"provider.limits.quote_ttl": int64(l.QuoteTTL), "provider.limits.context_tokens": int64(l.ContextTokens), "provider.limits.tree_mb": int64(l.TreeMB),
	} {
		if value == 0 && yamlfile.Has(c.src, "$."+name) {
			all = append(all, Mistake("$."+name, "must be more than 0; leave it out for the default"))
		}
	}

	if r := c.Provider.Refunds; r.MaxFeeMsats == 0 && !r.CreditOnly && yamlfile.Has(c.src, "$.provider.refunds.max_fee_msats") {
		all = append(all, Mistake("$.provider.refunds.max_fee_msats", "must be more than 0; leave it out for the default, or send no refunds with credit_only: true"))
	}

	for _, v := range []struct {
		name  string
		value int64
	}{
		{"provider.refunds.max_fee_msats", c.Provider.Refunds.MaxFeeMsats},
		{"buyer.max_msats_per_day", c.Buyer.DayMsats},
		{"buyer.max_msats_per_provider_and_day", c.Buyer.ProviderMsats},
		{"buyer.max_fee_msats", c.Buyer.FeeMsats},
		{"buyer.max_engagement_msats", c.Buyer.EngagementMsats},
	} {
		if v.value < 0 {
			all = append(all, Mistake("$."+v.name, "cannot be negative"))
		} else if payments.CheckMsats(v.value) != nil {
			all = append(all, Mistake("$."+v.name, "is more than there is"))
		}
	}

	return all
}

// checkLoopback wants an address of this machine: what a node earns is not for
// everybody, and a proxy can ask for a password.
func checkLoopback(path, addr string) *Problem {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !isPort(port) || !observe.IsLoopback(host) {
		return Mistake(path, fmt.Sprintf("must be an address of this machine, as 127.0.0.1:9464, not %q", addr))
	}
	return nil
}
