package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/agentruntime/analysis/code"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/hardware"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

func providerConfigOf(c *Node, key keys.Signer, k *store.Store, m *exchange.Market, run *runner, log *slog.Logger) (provider.Config, error) {
	_, image, err := sandbox.HostManifest()
	if err != nil {
		return provider.Config{}, fmt.Errorf("describe the host's toolchain: %w", err)
	}
	registered, err := c.registered()
	if err != nil {
		return provider.Config{}, err
	}

	cfg := provider.Config{
		Signer: key, SignLater: key.Remote != nil, Store: k.Sales(jobsProfile), Market: m, Runner: run, Log: log,
		Offers: c.Offers(), Kinds: provider.Kinds{Also: c.Provider.Kinds}, Lifecycle: c.Provider.Lifecycle.Provider(),
		Images: provider.Images{HostDigest: image, Registered: func(d string) bool { return slices.Contains(registered, d) }, Fetches: c.fetches, FullNetwork: c.Sandbox.FullNetworkMB > 0, Confinement: c.announcedLevel()},
		Profile: provider.Profile{
			Name: c.Node.Name, About: c.Provider.About, Picture: c.Provider.Picture, Website: c.Provider.Website,
			LUD16: c.Provider.LUD16, NIP05: c.Provider.NIP05, Producer: "lightwork@" + c.Version, Models: c.models(),
		},
		Access: c.Access(), Admission: c.Admission().Word, Pause: c.Admission().pause, DrainBy: c.Admission().drainBy,
		Limits: c.Provider.Limits.Provider(),
	}
	kept := c.Retention.Kept()
	cfg.Retention = &kept
	cfg.Limits.MemoryMB, cfg.Limits.CPUs = hostMemoryMB()/2, float64(runtime.NumCPU())
	if key.Remote == nil { // a remote one is too slow to open what strangers send
		cfg.Cipher = key.Cipher
		cfg.Trees = &provider.Trees{
			MaxBytes: c.Provider.Limits.TreeBytes(), Servers: c.BlobServers(), Dir: filepath.Join(c.DataDir("provider"), "trees"), Market: m,
		}
	}
	cfg.Policy, err = policyManifest(c, run, image, registered)
	return cfg, err
}

// hostMemoryMB is this machine's memory; jobs share half of it at most.
func hostMemoryMB() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram * uint64(info.Unit) >> 20)
}

// policyManifest freezes what jobs run under: who may reach what, at which
// price, judged how. Its hash is the policy_bundle_id of every quote.
func policyManifest(c *Node, run *runner, image string, registered []string) (receipts.Policy, error) {
	jobs := map[string]receipts.PolicyJob{}
	for _, o := range c.Provider.Offers {
		s, ok := schemas.Lookup(o.Schema)
		if !ok {
			return receipts.Policy{}, fmt.Errorf("unknown schema %q", o.Schema)
		}
		doc := s.Document()
		d, err := hashing.SumValue(doc)
		if err != nil {
			return receipts.Policy{}, err
		}
		jobs[o.Schema] = receipts.PolicyJob{VerificationMode: doc.VerificationMode, HashRules: doc.HashRules, DocumentHash: d}
	}

	tools, err := toolsOfRoutes(c, run)
	if err != nil {
		return receipts.Policy{}, err
	}

	tables := map[string][]receipts.PolicyRoute{}
	for profile, rows := range run.pipe.Tables() {
		for _, row := range rows {
			tables[profile] = append(tables[profile], receipts.PolicyRoute{Tag: row.Tag, Handler: row.Handler})
		}
	}

	return receipts.Policy{
		Version: receipts.Version, Producer: "lightwork@" + c.Version,
		Tables: tables, Tools: tools, Jobs: jobs, Prices: offersOf(c.Config), Limits: limitsOf(c.Config),
		Images: receipts.PolicyImages{Host: image, Registered: registered},
		Models: receipts.PolicyModels{Name: c.Model.Name, Embed: c.Model.Embed},
	}, nil
}

// toolsOfRoutes names the tool of each job type, with the agent's version and
// the manifest that was approved.
func toolsOfRoutes(c *Node, run *runner) (map[string]receipts.PolicyTool, error) {
	versions := map[string]supervisor.AgentStatus{}
	// First what an agent will be that does not run yet: the policy is the same.
	builtIn, err := builtin.BuiltIn(c.Config, c.Level)
	if err != nil {
		return nil, err
	}
	for _, spec := range builtIn {
		versions[spec.ID] = supervisor.AgentStatus{Version: spec.Version, ManifestHash: spec.ManifestHash}
	}

	for _, a := range c.Agents {
		if m, err := manifest.Read(filepath.Join(c.Path(a.Dir), manifest.FileName)); err == nil {
			versions[m.ID] = supervisor.AgentStatus{Version: m.Version, ManifestHash: m.Hash}
		}
	}

	for _, st := range run.sup.Status() {
		versions[st.ID] = st
	}
	tools := map[string]receipts.PolicyTool{}
	for schema, to := range run.routes {
		st := versions[to.agent]
		tools[schema] = receipts.PolicyTool{Tool: to.agent + "/" + to.tool, Version: st.Version, ManifestHash: st.ManifestHash}
	}

	return tools, nil
}

func offersOf(c *config.Config) (offers []receipts.PolicyPrice) {
	for _, o := range c.Provider.Offers {
		offers = append(offers, receipts.PolicyPrice{SchemaID: o.Schema, Modes: o.Modes, Price: o.Table()})
	}
	return offers
}

func limitsOf(c *config.Config) receipts.PolicyLimits {
	l := c.Provider.Limits
	return receipts.PolicyLimits{
		Concurrent: int64(l.Concurrent), Queue: int64(l.Queue), QuoteTTLMs: l.QuoteTTL.Milliseconds(),
		FreePoWBits: int64(l.FreePoW), ContextTokens: int64(l.ContextTokens),
	}
}

// hardwareHere is what the announcement says of this machine.
func hardwareHere(ctx context.Context) provider.Hardware {
	h := hardware.Detect(ctx, os.DirFS("/"))
	return provider.Hardware{MemoryGB: h.MemoryGB, GPUType: h.GPU, VRAMGB: h.VRAMGB}
}

// models are what does the offered jobs, by the name that results give it: a
// configured model, or the built-in program in its place. Of an agent that the
// operator has installed nobody here knows it.
func (c *Node) models() []string {
	var names []string
	for _, o := range c.Provider.Offers {
		name := map[schemas.ID]string{
			schemas.CodeChunkAnalysis: cmp.Or(c.Model.Name, code.Model),
			schemas.RetrievalRerank:   cmp.Or(c.Model.Name, analysis.RerankModel),
			schemas.Embedding:         cmp.Or(c.Model.Embed, analysis.EmbedModel),
			schemas.TextGeneration:    c.Model.Name,
		}[schemas.ID(o.Schema)]
		if o.Tool == "" && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	return names
}
