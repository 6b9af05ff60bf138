package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

func providerConfigOf(c *config, key signer, k *kernel.Kernel, m *exchange.Market, run *runner, log *slog.Logger) (provider.Config, error) {
	_, image, err := sandbox.HostManifest()
	if err != nil {
		return provider.Config{}, fmt.Errorf("describe the host's toolchain: %w", err)
	}
	registered, err := c.registered()
	if err != nil {
		return provider.Config{}, err
	}
	cfg := provider.Config{
		Signer: key, SignLater: key.remote != nil, Store: k.ProviderStore(jobsProfile), Market: m, Runner: run, Log: log,
		Offers: c.offers(), Kinds: provider.Kinds{Also: c.Provider.Kinds}, Lifecycle: c.Provider.Lifecycle.provider(),
		Images: provider.Images{HostDigest: image, Registered: func(d string) bool { return slices.Contains(registered, d) }, Fetches: c.fetches, FullNetwork: c.Sandbox.FullNetworkMB > 0, Confinement: c.announcedLevel()},
		Profile: provider.Profile{
			Name: c.Node.Name, About: c.Provider.About, Picture: c.Provider.Picture, Website: c.Provider.Website,
			LUD16: c.Provider.LUD16, Producer: "lightwork@" + version, Models: c.models(),
		},
		Access: c.access(), Admission: c.admission, Pause: c.pause, DrainBy: c.drainBy,
		Limits: c.Provider.Limits.provider(),
	}
	cfg.Limits.MemoryMB, cfg.Limits.CPUs = hostMemoryMB()/2, float64(runtime.NumCPU())
	if key.remote == nil { // a remote one is too slow to open what strangers send
		cfg.Cipher = key.cipher
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
func policyManifest(c *config, run *runner, image string, registered []string) ([]byte, error) {
	type rules struct {
		Mode     schemas.Mode      `json:"verification_mode"`
		Hash     schemas.HashRules `json:"hash_rules"`
		Document hashing.Digest    `json:"document_hash"`
	}
	jobs := map[string]rules{}
	for _, o := range c.Provider.Offers {
		s, ok := schemas.Lookup(o.Schema)
		if !ok {
			return nil, fmt.Errorf("unknown schema %q", o.Schema)
		}
		doc := s.Document()
		d, err := hashing.SumValue(doc)
		if err != nil {
			return nil, err
		}
		jobs[o.Schema] = rules{doc.VerificationMode, doc.HashRules, d}
	}
	tools, err := toolsOfRoutes(c, run)
	if err != nil {
		return nil, err
	}
	return hashing.CanonicalValue(map[string]any{
		"version": 1, "producer": "lightwork@" + version,
		"tables": run.pipe.Tables(), "tools": tools, "jobs": jobs, "prices": offersOf(c), "limits": limitsOf(c),
		"images": map[string]any{"host": image, "registered": registered},
		"models": map[string]any{"name": c.Model.Name, "embed": c.Model.Embed},
	})
}

// toolsOfRoutes names the tool of each job type, with the agent's version and
// the manifest that was approved.
func toolsOfRoutes(c *config, run *runner) (map[string]any, error) {
	versions := map[string]supervisor.AgentStatus{}
	// First what an agent will be that does not run yet: the policy is the same.
	builtIn, err := c.builtIn()
	if err != nil {
		return nil, err
	}
	for _, spec := range builtIn {
		versions[spec.ID] = supervisor.AgentStatus{Version: spec.Version, ManifestHash: spec.ManifestHash}
	}
	for _, a := range c.Agents {
		if m, err := manifest.Read(filepath.Join(c.path(a.Dir), manifest.FileName)); err == nil {
			versions[m.ID] = supervisor.AgentStatus{Version: m.Version, ManifestHash: m.Hash}
		}
	}
	for _, st := range run.sup.Status() {
		versions[st.ID] = st
	}
	tools := map[string]any{}
	for schema, to := range run.routes {
		st := versions[to.agent]
		tools[schema] = map[string]string{"tool": to.agent + "/" + to.tool, "version": st.Version, "manifest_hash": st.ManifestHash}
	}
	return tools, nil
}

func offersOf(c *config) []map[string]any {
	out := []map[string]any{}
	for _, o := range c.Provider.Offers {
		out = append(out, map[string]any{
			"schema_id": o.Schema, "modes": o.Modes, "price": o.table(),
		})
	}
	return out
}

func limitsOf(c *config) map[string]any {
	l := c.Provider.Limits
	return map[string]any{"concurrent": l.Concurrent, "queue": l.Queue, "quote_ttl_ms": l.QuoteTTL.Milliseconds(), "free_pow_bits": l.FreePoW, "context_tokens": l.ContextTokens}
}

func rootSecret(path string) ([]byte, error) {
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("correct identity.root_secret_file, or restore it from your backup; for a new node lightwork init makes one", "preimage secret: %w", err)
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != 32 {
		return nil, usage("restore it from your backup", "%s does not hold 64 hex digits", path)
	}
	return secret, nil
}
