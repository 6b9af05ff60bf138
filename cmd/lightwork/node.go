package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// stopTime is how long agents get to end when the node stops.
const stopTime = 10 * time.Second

// timeLeft is the time until ctx's deadline; 0 without one.
func timeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Until(end), time.Millisecond)
	}
	return 0
}

// runProvider is a provider's whole life: open, serve until ctx ends, close.
// tell hears once the agents have registered and selling begins, and what
// happens then.
func runProvider(ctx context.Context, c *config, log *slog.Logger, tell *teller) (err error) {
	key, err := openSigner(c, "provider", log)
	if err != nil {
		return err
	}
	secret, err := rootSecret(c.path(c.Identity.RootSecretFile))
	if err != nil {
		return err
	}
	dir := c.dataDir("provider")
	k, err := kernel.Open(ctx, dir, kernel.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, k.Close()) }()

	pinned, err := c.followPin(ctx, k)
	if err != nil {
		return err
	}
	w, closeWallet, err := openWallet(ctx, c, c.Provider.Wallet, "provider", log)
	if err != nil {
		return err
	}
	defer closeWallet()
	m, err := newMarket(c, key, log)
	if err != nil {
		return err
	}
	people := &society{k: k, told: &told{}}
	desk := &debtDesk{}
	agents, sup, stopAgents, err := openHost(c, k, people, desk, log)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, stopAgents(ctx)) }()
	routes, err := routesOf(c)
	if err != nil {
		return err
	}
	run, err := newRunner(k, sup, routes, key.PublicKey(), filepath.Join(dir, "runs"), log)
	if err != nil {
		return err
	}
	if err := agents.StartAll(ctx); err != nil {
		return hinted(fmt.Errorf("start the sandbox agent: %w", err), "lightwork doctor says what the sandbox needs")
	}
	if err := canServe(sup, routes); err != nil {
		return err
	}
	if err := people.build(ctx, c, agents, sup, log); err != nil {
		return err
	}
	cfg, err := providerConfigOf(c, key, k, m, run, log)
	if err != nil {
		return err
	}
	cfg.Hardware = hardwareHere(ctx)
	if err := checkPin(pinned, cfg.Policy); err != nil {
		return err
	}
	cfg.RootSecret = secret
	if w != nil {
		cfg.Wallet, cfg.Refunds, cfg.LeastMsats = w, c.refunds(w), c.leastMsats()
	}
	board, err := watched(ctx, &cfg)
	if err != nil {
		return err
	}
	seen, err := openObserved(c, board, key, m, sup, k.ProviderStore(jobsProfile), w, routes, log)
	if err != nil {
		return err
	}
	defer seen.close()
	cfg.Store, cfg.Market = tellingStore{cfg.Store, tell}, tellingMarket{cfg.Market, tell}
	p, err := provider.New(cfg)
	if err != nil {
		return usage("", "%w", err)
	}
	desk.seller = p
	tell.ready(key.PublicKey())
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.serve(gctx) })
	g.Go(func() error { return key.serve(gctx) })
	g.Go(func() error { return seen.serve(gctx) })
	g.Go(func() error { return seen.node.Probe(gctx) })
	g.Go(func() error { return tell.watchRelays(gctx, m.pool) })
	g.Go(func() error { return stopped(gctx, agents.Serve(gctx, c.controlSocket())) })
	g.Go(func() error { return stopped(gctx, p.Serve(gctx)) })
	g.Go(func() error { return pruneHourly(gctx, k, log) })
	err = g.Wait()
	if errors.Is(err, provider.ErrDrained) || errors.Is(err, provider.ErrDrainCut) {
		return drained(c, tell, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// drained ends a run that took no further jobs: the next takes none either until
// it is told to.
func drained(c *config, tell *teller, end error) error {
	how := "drained: every job has ended"
	if errors.Is(end, provider.ErrDrainCut) {
		how = "drained: the time is up; what is open goes on at the next run"
	}
	tell.say("%s; lightwork provider resume takes jobs again at the next run", how)
	if c.admission() != provider.AdmissionDraining {
		return nil // resumed meanwhile
	}
	return c.setAdmission(provider.AdmissionPaused, time.Time{})
}

// pruneHourly deletes what the journal need not keep: of the organism's threads,
// as their profiles say. What paid jobs leave is kept.
func pruneHourly(ctx context.Context, k *kernel.Kernel, log *slog.Logger) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if _, err := k.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Warn("prune the journal", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// canServe refuses to sell what no tool does: an offer whose agent is not
// approved, does not run, or has not registered the tool.
func canServe(sup *supervisor.Supervisor, routes map[string]route) error {
	callable := map[string]bool{}
	for _, st := range sup.Status() {
		for _, tool := range st.Tools {
			callable[st.ID+"/"+tool] = true
		}
	}
	for _, schema := range sortedKeys(routes) {
		if id := routes[schema].agent + "/" + routes[schema].tool; !callable[id] {
			return usage("lightwork agents list says why; agents approve allows one, and agents[].tools must name the tool", "%s is on offer, and %s cannot be called", schema, id)
		}
	}
	return nil
}

// stopped makes an early nil end the group too.
func stopped(ctx context.Context, err error) error {
	if err == nil && ctx.Err() == nil {
		return context.Canceled
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func providerConfigOf(c *config, key signer, k *kernel.Kernel, m *market, run *runner, log *slog.Logger) (provider.Config, error) {
	_, image, err := sandbox.HostManifest()
	if err != nil {
		return provider.Config{}, fmt.Errorf("describe the host's toolchain: %w", err)
	}
	registered, err := c.registered()
	if err != nil {
		return provider.Config{}, err
	}
	cfg := provider.Config{
		Signer: key, SignLater: key.remote != nil, Store: k.ProviderStore(jobsProfile), Market: providerMarket{m}, Runner: run, Log: log,
		Offers: c.offers(), Kinds: provider.Kinds{Also: c.Provider.Kinds}, Lifecycle: c.Provider.Lifecycle.provider(),
		Images: provider.Images{HostDigest: image, Registered: func(d string) bool { return slices.Contains(registered, d) }, Fetches: c.fetches, FullNetwork: c.Sandbox.FullNetworkMB > 0},
		Profile: provider.Profile{
			Name: c.Node.Name, About: c.Provider.About, Picture: c.Provider.Picture, Website: c.Provider.Website,
			LUD16: c.Provider.LUD16, Producer: "lightwork@" + version, Models: c.models(),
		},
		Access: c.access(), Admission: c.admission, DrainBy: c.drainBy,
		Limits: provider.Limits{
			Concurrent: c.Provider.Limits.Concurrent, Queue: c.Provider.Limits.Queue,
			QueuePerBuyer: c.Provider.Limits.QueuePerBuyer, Unpaid: c.Provider.Limits.Unpaid,
			UnpaidPerBuyer: c.Provider.Limits.UnpaidPerBuyer, HeldPerBuyer: c.Provider.Limits.HeldPerBuyer,
			QuoteTTL: c.Provider.Limits.QuoteTTL, FreePoW: c.Provider.Limits.FreePoW,
			MemoryMB: hostMemoryMB() / 2, CPUs: float64(runtime.NumCPU()), ContextTokens: c.Provider.Limits.ContextTokens,
		},
	}
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
	return hashing.CanonicalValue(map[string]any{
		"version": 1, "producer": "lightwork@" + version,
		"tables": run.pipe.Tables(), "tools": toolsOfRoutes(run), "jobs": jobs, "prices": offersOf(c), "limits": limitsOf(c),
		"images": map[string]any{"host": image, "registered": registered},
		"models": map[string]any{"name": c.Model.Name, "embed": c.Model.Embed},
	})
}

// toolsOfRoutes names the tool of each job type, with the agent's version and
// the manifest that was approved.
func toolsOfRoutes(run *runner) map[string]any {
	versions := map[string]supervisor.AgentStatus{}
	for _, st := range run.sup.Status() {
		versions[st.ID] = st
	}
	tools := map[string]any{}
	for schema, to := range run.routes {
		st := versions[to.agent]
		tools[schema] = map[string]string{"tool": to.agent + "/" + to.tool, "version": st.Version, "manifest_hash": st.ManifestHash}
	}
	return tools
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
		return nil, usage("restore it from your backup; for a new node lightwork init makes one", "preimage secret: %w", err)
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

// socketDir is where agents' sockets live: in the data folder, or where that
// path is too long for a socket address, in a folder of its own under the
// system's temporary one.
func socketDir(dataDir string) string {
	dir := filepath.Join(dataDir, "run")
	const most = 90
	if abs, err := filepath.Abs(dir); err == nil && len(abs) <= most {
		return abs
	}
	return socketDirIn(os.TempDir(), dir)
}

// socketDirIn is the folder in base that stands for dir.
func socketDirIn(base, dir string) string {
	return filepath.Join(base, "lightwork-"+hashing.Bytes([]byte(dir)).Hex()[:16])
}
