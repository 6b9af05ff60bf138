package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	agenttext "github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Access says who may buy: npub or hex keys.
type Access struct {
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
	// Trust lets in whom the keys in Of follow; Of left out is the provider's own key.
	Trust provider.Trust `yaml:"trust"`
	Of    []string       `yaml:"of"`
}

func (c *Config) checkAccess() *Problem {
	for name, keys := range map[string][]string{"allow": c.Provider.Access.Allow, "deny": c.Provider.Access.Deny, "of": c.Provider.Access.Of} {
		for i, k := range keys {
			if _, err := receipts.ParseKey(k); err != nil {
				return Mistake(fmt.Sprintf("$.provider.access.%s[%d]", name, i), "must be an npub1... or 64 hex digits")
			}
		}
	}

	switch c.Provider.Access.Trust {
	case provider.TrustNobody, provider.TrustFollows, provider.TrustFollows2:
		return nil
	}
	return Mistake("$.provider.access.trust", "must be follows or follows2")
}

// Access is who may buy, with keys in hex.
func (c *Config) Access() provider.Access {
	hex := func(keys []string) (out []string) {
		for _, k := range keys {
			key, _ := receipts.ParseKey(k) // checked before
			out = append(out, key)
		}
		return out
	}
	a := c.Provider.Access
	return provider.Access{Allow: hex(a.Allow), Deny: hex(a.Deny), Trust: a.Trust, Of: hex(a.Of)}
}

// OwnTool is the built-in tool that does a job type.
func OwnTool(id schemas.ID) (agent, tool string, ok bool) {
	switch id {
	case schemas.SandboxRun:
		return agentsandbox.ID, agentsandbox.Tool, true
	case schemas.CodeChunkAnalysis:
		return agenttext.ID, agenttext.ToolCodeChunk, true
	case schemas.RetrievalRerank:
		return agenttext.ID, agenttext.ToolRerank, true
	case schemas.Embedding:
		return agenttext.ID, agenttext.ToolEmbedding, true
	case schemas.TextGeneration:
		return agenttext.ID, agenttext.ToolGenerate, true
	}

	return "", "", false
}

// doesOther reports a built-in tool that does not do a job type.
func doesOther(tool, schemaID string) bool {
	agent, name, _ := wire.ToolID(tool).Split()
	if agent != agentsandbox.ID && agent != agenttext.ID {
		return false
	}
	ownAgent, own, _ := OwnTool(schemas.ID(schemaID))
	return agent != ownAgent || name != own
}

// Offer is a job type that is sold, and its price.
type Offer struct {
	Schema         string          `yaml:"schema"`
	Tool           string          `yaml:"tool"` // AGENT/TOOL that does the job; the built-in one by default
	Modes          []receipts.Mode `yaml:"modes"`
	BaseMsats      int64           `yaml:"base_msats"`
	PerMinuteMsats int64           `yaml:"per_minute_msats"`
	// Prices of 1000 tokens, and the most that a job may put out.
	InputMsats      int64 `yaml:"input_tokens_per_1k_msats"`
	OutputMsats     int64 `yaml:"output_tokens_per_1k_msats"`
	MaxOutputTokens int64 `yaml:"max_output_tokens"`
	// EngagementMsats is the fee for the attempt at a job that says what its result must be.
	EngagementMsats int64 `yaml:"engagement_msats"`
}

// Table is the offer's price table.
func (o Offer) Table() receipts.Price {
	return receipts.Price{
		BaseMsats: o.BaseMsats, PerMinuteMsats: o.PerMinuteMsats,
		InputMsats: o.InputMsats, OutputMsats: o.OutputMsats, MaxOutputTokens: o.MaxOutputTokens,
		EngagementMsats: o.EngagementMsats,
	}
}

// Limits bound what strangers can take of this machine; 0 stands for a default.
type Limits struct {
	Concurrent     int           `yaml:"concurrent"`
	Queue          int           `yaml:"queue"`
	QueuePerBuyer  int           `yaml:"queue_per_buyer"`
	Unpaid         int           `yaml:"unpaid"`
	UnpaidPerBuyer int           `yaml:"unpaid_per_buyer"`
	HeldPerBuyer   int           `yaml:"held_per_buyer"`
	QuoteTTL       time.Duration `yaml:"quote_ttl"`
	FreePoW        int           `yaml:"free_pow_bits"`
	ContextTokens  int           `yaml:"context_tokens"`
	TreeMB         int           `yaml:"tree_mb"` // of the files of a job that are too large for a request
}

// TreeBytes is the most that the files of a job may have, packed.
func (l Limits) TreeBytes() int64 { return int64(cmp.Or(l.TreeMB, defaultTreeMB)) << 20 }

// defaultTreeMB is TreeMB when the configuration says nothing.
const defaultTreeMB = 256

// Provider gives the limits to a provider.
func (l Limits) Provider() provider.Limits {
	return provider.Limits{
		Concurrent: l.Concurrent, Queue: l.Queue, QueuePerBuyer: l.QueuePerBuyer, Unpaid: l.Unpaid, UnpaidPerBuyer: l.UnpaidPerBuyer,
		HeldPerBuyer: l.HeldPerBuyer, QuoteTTL: l.QuoteTTL, FreePoW: l.FreePoW, ContextTokens: l.ContextTokens,
	}
}

// Provider is what is sold, for what, to whom.
type Provider struct {
	About   string  `yaml:"about"`
	Picture string  `yaml:"picture"`
	Website string  `yaml:"website"`
	LUD16   string  `yaml:"lud16"`
	NIP05   string  `yaml:"nip05"`
	Wallet  Wallet  `yaml:"wallet"`
	Offers  []Offer `yaml:"offers"`
	Limits  Limits  `yaml:"limits"`
	// Kinds of request that are taken beside 5050.
	Kinds   []int   `yaml:"kinds"`
	Refunds Refunds `yaml:"refunds"`
	Access  Access  `yaml:"access"`
	// Lifecycle names kinds for the events that NIP-SA proposes.
	Lifecycle Lifecycle `yaml:"lifecycle"`
}

// Offers gives what is sold to a provider.
func (c *Config) Offers() []provider.Offer {
	var out []provider.Offer
	for _, o := range c.Provider.Offers {
		out = append(out, provider.Offer{
			SchemaID: o.Schema, Modes: o.Modes, BaseMsats: o.BaseMsats, PerMinuteMsats: o.PerMinuteMsats,
			InputMsats: o.InputMsats, OutputMsats: o.OutputMsats, MaxOutputTokens: o.MaxOutputTokens,
			EngagementMsats: o.EngagementMsats,
		})
	}
	return out
}

// Again reads the file once more.
func (c *Config) Again() (*Config, error) { return Load(c.file) }

// Differs are the sections in which another configuration says otherwise, but for what is
// on offer.
func (c *Config) Differs(other *Config) []string {
	a, b := *c, *other
	a.Provider.Offers, b.Provider.Offers = nil, nil

	names := []string{}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		field := x.Type().Field(i)
		if field.IsExported() && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, field.Tag.Get("yaml"))
		}
	}
	return names
}

func (c *Config) checkOffer(at string, o Offer) *Problem {
	_, ok := schemas.Lookup(o.Schema)
	switch {
	case !ok:
		return Mistake(at+".schema", "unknown job type; "+advice.ListSchemas+" shows them")
	case o.Schema == string(schemas.TextGeneration) && o.Tool == "" && c.Model.Name == "":
		return Mistake(at+".schema", "needs a language model (model.base_url and model.name), or a tool of yours")
	case o.Tool != "" && !validToolID(o.Tool):
		return Mistake(at+".tool", "must be AGENT/TOOL")
	case o.Tool != "" && doesOther(o.Tool, o.Schema):
		return Mistake(at+".tool", o.Tool+" is built in and does not do "+o.Schema+"; leave tool out for the built-in one that does")
	case len(o.Modes) == 0:
		return Mistake(at+".modes", "name at least one of hold, prepay, postpay, free")
	case o.BaseMsats < 0:
		return Mistake(at+".base_msats", "a price cannot be negative")
	case o.PerMinuteMsats < 0:
		return Mistake(at+".per_minute_msats", "a price cannot be negative")
	case payments.CheckMsats(o.BaseMsats) != nil:
		return Mistake(at+".base_msats", "is more than there is")
	case payments.CheckMsats(o.PerMinuteMsats) != nil:
		return Mistake(at+".per_minute_msats", "is more than there is")
	case o.OutputMsats > 0 && o.MaxOutputTokens <= 0:
		return Mistake(at+".output_tokens_per_1k_msats", "needs max_output_tokens: a price is a worst case")
	case !o.Table().Valid():
		return Mistake(at, "a price of tokens, or engagement_msats, is negative or more than there is")
	}

	if bad := checkModes(at+".modes", o.Modes); bad != nil {
		return bad
	}

	for i, m := range o.Modes {
		where := fmt.Sprintf("%s.modes[%d]", at, i)
		switch {
		case m == receipts.ModeFree:
		case c.Provider.Wallet.None():
			return Mistake(where, string(m)+" needs a wallet (provider.wallet), or sell in mode free")
		case o.BaseMsats+o.PerMinuteMsats+o.InputMsats+o.OutputMsats == 0:
			return Mistake(where, string(m)+" needs a price: base_msats, per_minute_msats or one of tokens")
		}
	}

	return nil
}

// IsMode reports a way to pay.
func IsMode(m receipts.Mode) bool {
	return slices.Contains([]receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree}, m)
}

func checkModes(path string, modes []receipts.Mode) *Problem {
	for i, m := range modes {
		if !IsMode(m) {
			return Mistake(fmt.Sprintf("%s[%d]", path, i), "must be hold, prepay, postpay or free")
		}
	}
	return nil
}

// Sells reports whether the node is set up to sell anything. Who only buys needs
// neither a provider's keys nor a sandbox.
func (c *Config) Sells() bool { return len(c.Provider.Offers) > 0 }

// SellsSandbox reports whether a job type on offer runs in the built-in sandbox.
func (c *Config) SellsSandbox() bool { return slices.ContainsFunc(c.Provider.Offers, needsSandbox) }

// SellsSandboxOnly reports whether every job type on offer runs in the built-in
// sandbox.
func (c *Config) SellsSandboxOnly() bool {
	return !slices.ContainsFunc(c.Provider.Offers, func(o Offer) bool { return !needsSandbox(o) })
}

func needsSandbox(o Offer) bool {
	return o.Tool == "" && o.Schema == string(schemas.SandboxRun) || strings.HasPrefix(o.Tool, agentsandbox.ID+"/")
}

// Lifecycle has a kind for each event that is to be published; 0: none.
type Lifecycle struct {
	AgentProfile      int  `yaml:"agent_profile"`
	AgentState        int  `yaml:"agent_state"`
	TickRequest       int  `yaml:"tick_request"`
	TickResult        int  `yaml:"tick_result"`
	TrajectorySession int  `yaml:"trajectory_session"`
	TrajectoryEvent   int  `yaml:"trajectory_event"`
	Encrypt           bool `yaml:"encrypt"` // trajectories, to the buyer
}

// Provider gives the kinds to a provider.
func (c Lifecycle) Provider() provider.Lifecycle {
	return provider.Lifecycle{Encrypt: c.Encrypt, Kinds: lifecycle.Kinds{
		AgentProfile: c.AgentProfile, AgentState: c.AgentState, TickRequest: c.TickRequest,
		TickResult: c.TickResult, TrajectorySession: c.TrajectorySession, TrajectoryEvent: c.TrajectoryEvent,
	}}
}

func (c Lifecycle) check() *Problem {
	if err := c.Provider().Kinds.Check(); err != nil {
		return Mistake("$.provider.lifecycle", err.Error())
	}
	return nil
}

// Refunds says how failed prepaid jobs are paid back.
type Refunds struct {
	CreditOnly  bool  `yaml:"credit_only"`
	MaxFeeMsats int64 `yaml:"max_fee_msats"`
}
