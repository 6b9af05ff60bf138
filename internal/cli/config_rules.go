package cli

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
	"github.com/lightwork-market/lightwork/internal/yamlfile"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/payments/tapassets"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// isAddress reports an address that the node may name to strangers.
func isAddress(raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host != "" && u.User == nil && (u.Port() == "" || isPort(u.Port()))
}

// isPort reports a number, or a service's name, that a program can listen on.
func isPort(text string) bool {
	_, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", text)
	return err == nil
}

// checkListen wants HOST:PORT, or nothing.
func checkListen(path, addr, example string) *configError {
	if addr == "" {
		return nil
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || !isPort(port) {
		return &configError{path, fmt.Sprintf("must be an address such as %s, not %q", example, addr)}
	}
	return nil
}

// check finds every value that cannot be used.
func (c *config) check() []*configError {
	var all []*configError
	add := func(found ...*configError) {
		for _, bad := range found {
			if bad != nil {
				all = append(all, bad)
			}
		}
	}

	if c.Version != 1 {
		add(&configError{"$.version", "must be 1"})
	}
	if len(c.Relays) == 0 {
		add(&configError{"$.relays", "at least one relay is needed"})
	}
	for i, r := range c.Relays {
		if at := fmt.Sprintf("$.relays[%d]", i); !isAddress(r, "ws", "wss") {
			add(&configError{at, "must be a ws:// or wss:// address without user or password: it is published; a port is at most 65535"})
		}
	}
	for i, b := range c.Blobs {
		if at := fmt.Sprintf("$.blobs[%d]", i); !isAddress(b, "http", "https") {
			add(&configError{at, "must be an http:// or https:// address without user or password: it is published; a port is at most 65535"})
		}
	}
	if name := c.Provider.NIP05; name != "" {
		if _, _, err := nip05.Split(name); err != nil {
			add(&configError{"$.provider.nip05", fmt.Sprintf("must be a name such as me@example.com, in lower case, not %q", name)})
		}
	}
	add(c.Provider.Wallet.check("$.provider.wallet"), c.Buyer.Wallet.check("$.buyer.wallet"))

	sold := map[string]bool{}
	for i, o := range c.Provider.Offers {
		at := fmt.Sprintf("$.provider.offers[%d]", i)
		if sold[o.Schema] { // one of two prices would hold, and nothing would say which
			add(&configError{at + ".schema", "is on offer above already: a job type has one entry, with all its modes"})
			continue
		}
		sold[o.Schema] = true
		add(c.checkOffer(at, o))
	}
	for i, kind := range c.Provider.Kinds {
		if kind < 5000 || kind > 5999 {
			add(&configError{fmt.Sprintf("$.provider.kinds[%d]", i), "must be a kind of request, 5000 to 5999"})
		}
	}
	add(c.Provider.Lifecycle.check())
	for i, a := range c.Agents {
		add(a.check(fmt.Sprintf("$.agents[%d]", i)))
	}

	add(checkLoopback("$.observe.listen", c.Observe.Listen))
	add(c.checkLimits()...)
	add(c.Relay.check(), c.Sandbox.check(), c.checkJudge(), c.checkAccess(), c.checkOnchain(), c.checkApprovals())
	add(c.Model.check(), checkModes("$.buyer.modes", c.Buyer.Modes))
	return all
}

func (c *config) checkOffer(at string, o offerConfig) *configError {
	_, ok := schemas.Lookup(o.Schema)
	switch {
	case !ok:
		return &configError{at + ".schema", "unknown job type; lightwork schemas list shows them"}
	case o.Schema == string(schemas.TextGeneration) && o.Tool == "" && c.Model.Name == "":
		return &configError{at + ".schema", "needs a language model (model.base_url and model.name), or a tool of yours"}
	case o.Tool != "" && !validToolID(o.Tool):
		return &configError{at + ".tool", "must be AGENT/TOOL"}
	case o.Tool != "" && doesOther(o.Tool, o.Schema):
		return &configError{at + ".tool", o.Tool + " is built in and does not do " + o.Schema + "; leave tool out for the built-in one that does"}
	case len(o.Modes) == 0:
		return &configError{at + ".modes", "name at least one of hold, prepay, postpay, free"}
	case o.BaseMsats < 0:
		return &configError{at + ".base_msats", "a price cannot be negative"}
	case o.PerMinuteMsats < 0:
		return &configError{at + ".per_minute_msats", "a price cannot be negative"}
	case payments.CheckMsats(o.BaseMsats) != nil:
		return &configError{at + ".base_msats", "is more than there is"}
	case payments.CheckMsats(o.PerMinuteMsats) != nil:
		return &configError{at + ".per_minute_msats", "is more than there is"}
	case o.OutputMsats > 0 && o.MaxOutputTokens <= 0:
		return &configError{at + ".output_tokens_per_1k_msats", "needs max_output_tokens: a price is a worst case"}
	case !o.table().Valid():
		return &configError{at, "a price of tokens, or engagement_msats, is negative or more than there is"}
	}
	if bad := checkModes(at+".modes", o.Modes); bad != nil {
		return bad
	}
	for i, m := range o.Modes {
		where := fmt.Sprintf("%s.modes[%d]", at, i)
		switch {
		case m == receipts.ModeFree:
		case c.Provider.Wallet.none():
			return &configError{where, string(m) + " needs a wallet (provider.wallet), or sell in mode free"}
		case o.BaseMsats+o.PerMinuteMsats+o.InputMsats+o.OutputMsats == 0:
			return &configError{where, string(m) + " needs a price: base_msats, per_minute_msats or one of tokens"}
		}
	}
	return nil
}

func validToolID(id string) bool {
	_, _, ok := wire.ToolID(id).Split()
	return ok
}

func (a agentConfig) check(at string) *configError {
	switch {
	case a.Dir == "":
		return &configError{at, "dir is needed: the folder with opensentience.agent.json"}
	case a.UID < 0 || a.GID < 0:
		return &configError{at, "uid and gid cannot be negative"}
	}
	for j, name := range a.Tools {
		if !wire.ValidToolName(name) {
			return &configError{fmt.Sprintf("%s.tools[%d]", at, j), "must be a tool's name, without its agent"}
		}
	}
	for j, name := range a.EnvFrom {
		if !validEnvName(name) {
			return &configError{fmt.Sprintf("%s.env_from[%d]", at, j), "must be the name of a variable, and not one of the protocol's"}
		}
	}
	return nil
}

// validEnvName reports the name of a variable that an agent may be given.
func validEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00") && !strings.HasPrefix(name, "OPENSENTIENCE_")
}

func (m modelConfig) check() *configError {
	switch {
	case m == modelConfig{}:
		return nil
	case m.BaseURL == "":
		return &configError{"$.model", "base_url is needed: what comes before /chat/completions"}
	case m.KeyFile != "" && m.KeyEnv != "":
		return &configError{"$.model.key_env", "name a file or a variable, not both"}
	case m.Name == "" && m.Embed == "":
		return &configError{"$.model", "name or embed is needed: what to ask the endpoint for"}
	}
	if err := (model.Config{BaseURL: m.BaseURL, AllowHTTP: m.AllowHTTP}).CheckURL(); err != nil {
		return &configError{"$.model.base_url", err.Error()}
	}
	return nil
}

// checkLimits refuses what cannot be meant. In the buyer's budget 0 is no limit.
// Where 0 would stand for a default, a 0 that is written is refused: who writes
// it means none.
func (c *config) checkLimits() []*configError {
	var all []*configError
	if bad := (*provider.LimitError)(nil); errors.As(c.Provider.Limits.provider().Check(), &bad) {
		all = append(all, &configError{"$.provider.limits." + bad.Name, bad.Why})
	}
	l := c.Provider.Limits
	for name, value := range map[string]int64{
		"provider.limits.concurrent": int64(l.Concurrent), "provider.limits.queue": int64(l.Queue), "provider.limits.queue_per_buyer": int64(l.QueuePerBuyer),
		"provider.limits.unpaid": int64(l.Unpaid), "provider.limits.unpaid_per_buyer": int64(l.UnpaidPerBuyer), "provider.limits.held_per_buyer": int64(l.HeldPerBuyer),
		"provider.limits.quote_ttl": int64(l.QuoteTTL), "provider.limits.context_tokens": int64(l.ContextTokens),
	} {
		if value == 0 && yamlfile.Has(c.src, "$."+name) {
			all = append(all, &configError{"$." + name, "must be more than 0; leave it out for the default"})
		}
	}
	if r := c.Provider.Refunds; r.MaxFeeMsats == 0 && !r.CreditOnly && yamlfile.Has(c.src, "$.provider.refunds.max_fee_msats") {
		all = append(all, &configError{"$.provider.refunds.max_fee_msats", "must be more than 0; leave it out for the default, or send no refunds with credit_only: true"})
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
			all = append(all, &configError{"$." + v.name, "cannot be negative"})
		} else if payments.CheckMsats(v.value) != nil {
			all = append(all, &configError{"$." + v.name, "is more than there is"})
		}
	}
	return all
}

func checkModes(path string, modes []receipts.Mode) *configError {
	for i, m := range modes {
		switch m {
		case receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree:
		default:
			return &configError{fmt.Sprintf("%s[%d]", path, i), "must be hold, prepay, postpay or free"}
		}
	}
	return nil
}

// none reports that there is no wallet: only free jobs.
func (w walletConfig) none() bool { return w.Backend == "" || w.Backend == "none" }

func (w walletConfig) check(path string) *configError {
	switch w.Backend {
	case "", "none":
		return nil
	case "play":
		if w.Play.URL == "" || w.Play.TokenFile == "" {
			return &configError{path + ".play", "url and token_file are needed"}
		}
		if err := playnet.CheckURL(w.Play.URL); err != nil {
			return &configError{path + ".play.url", err.Error()}
		}
	case "lnd", backendOnchain:
		if w.LND.Address == "" || w.LND.TLSCertFile == "" || w.LND.MacaroonFile == "" {
			return &configError{path + ".lnd", "address, tls_cert_file and macaroon_file are needed"}
		}
		if _, err := payments.ParseNetwork(string(w.LND.Network)); err != nil && w.LND.Network != "" {
			return &configError{path + ".lnd.network", "must be mainnet, testnet, signet, regtest or simnet"}
		}
		return w.Onchain.check(path + ".onchain")
	case "nwc":
		if w.NWC.URIFile == "" {
			return &configError{path + ".nwc", "uri_file is needed: a file with the nostr+walletconnect:// address"}
		}
	case receipts.RailTaprootAssets:
		return &configError{path + ".backend", tapassets.ErrNoBackend.Error()}
	case "cashu":
		return w.Cashu.check(path + ".cashu")
	default:
		return &configError{path + ".backend", "must be play, lnd, nwc, cashu, onchain or none"}
	}
	return nil
}
