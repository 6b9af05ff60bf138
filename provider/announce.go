package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	announceEvery = time.Hour
)

// Profile is what a provider says of itself beside the numbers it measures.
type Profile struct {
	D        string // identifier of the announcement; "lightwork" if empty
	Name     string
	About    string
	Picture  string
	Website  string
	LUD16    string
	NIP05    string // name@host, for which the host vouches
	Producer string // "lightwork@<version>", also in trajectories
	// Models are what does the jobs, by the names that results have.
	Models []string
}

// Announcement is the content of a kind 31990 event: the fields of OA-7.1, the
// kind 0 style ones that clients show, and ours.
type Announcement struct {
	Name    string `json:"name,omitempty"`
	About   string `json:"about,omitempty"`
	Picture string `json:"picture,omitempty"`
	Website string `json:"website,omitempty"`
	LUD16   string `json:"lud16,omitempty"`
	NIP05   string `json:"nip05,omitempty"`

	SupplyClass  string       `json:"supply_class"`
	Capabilities Capabilities `json:"capabilities"`
	Pricing      Pricing      `json:"pricing"`
	Capacity     Capacity     `json:"capacity"`
	Stability    Stability    `json:"stability"`

	SupportsEncryption  bool                `json:"supportsEncryption"`
	EncryptionSupported bool                `json:"encryptionSupported"`
	Subscription        bool                `json:"subscription"`
	Amount              string              `json:"amount"`
	NIP90Params         map[string]NIP90Key `json:"nip90Params"`
	Lightwork           Extension           `json:"lightwork"`
}

// Capabilities of OA-7.1.
type Capabilities struct {
	SupportedJobs []string `json:"supported_jobs"`
	Models        []string `json:"models"`
	Hardware      Hardware `json:"hardware"`
}

// Hardware is detected by who runs the provider, never configured. A node
// without a GPU that it can see says "none" and 0.
type Hardware struct {
	MemoryGB int    `json:"memory_gb"`
	GPUType  string `json:"gpu_type"`
	VRAMGB   int    `json:"vram_gb"`
}

// Pricing of OA-7.1, in msats: the highest of the offers. Quotes are computed
// from each job type's own table, Extension.Prices.
type Pricing struct {
	InputTokens  int64 `json:"input_tokens_per_1k_msats"`
	OutputTokens int64 `json:"output_tokens_per_1k_msats"`
	SandboxMin   int64 `json:"sandbox_per_minute_msats"`
}

// Capacity of OA-7.1: what admission enforces.
type Capacity struct {
	MaxConcurrentJobs int `json:"max_concurrent_jobs"`
	MaxContextTokens  int `json:"max_context_tokens"`
	// What a sandbox job may ask for.
	MaxMemoryMB int64   `json:"max_memory_mb"`
	MaxCPUs     float64 `json:"max_cpus"`
}

// Stability of OA-7.1, computed from this node's own records.
type Stability struct {
	SuccessRate   float64 `json:"success_rate"`
	AvgLatencyMs  int64   `json:"avg_latency_ms"`
	JobsCompleted int     `json:"jobs_completed"`
}

// NIP90Key describes one param that a request may carry.
type NIP90Key struct {
	Required bool     `json:"required"`
	Values   []string `json:"values"`
}

// Extension is what only Lightwork nodes read.
type Extension struct {
	Version        int                        `json:"version"`
	PolicyBundleID string                     `json:"policy_bundle_id"`
	Modes          map[string][]receipts.Mode `json:"modes"` // by schema id
	BaseMsats      map[string]int64           `json:"base_msats"`
	Prices         map[string]receipts.Price  `json:"prices"` // by schema id
	Paused         bool                       `json:"paused"`
	FreePoW        int                        `json:"free_pow_bits"`
	HostImage      string                     `json:"host_image_digest,omitempty"`
	Confinement    string                     `json:"sandbox_confinement,omitempty"`
	PayeeNode      string                     `json:"payee_node,omitempty"`
	Network        payments.Network           `json:"network,omitempty"`
}

// Announcement says what this provider offers right now.
func (p *Provider) announcement(ctx context.Context) (Announcement, error) {
	st, err := p.cfg.Store.Stats(ctx)
	if err != nil {
		return Announcement{}, fmt.Errorf("read own record: %w", err)
	}
	pr := p.cfg.Profile
	a := Announcement{
		Name: pr.Name, About: pr.About, Picture: pr.Picture, Website: pr.Website, LUD16: pr.LUD16, NIP05: pr.NIP05,
		SupplyClass:        "SingleNode",
		Capabilities:       Capabilities{SupportedJobs: []string{}, Models: append([]string{}, pr.Models...), Hardware: p.hardware()},
		Capacity:           Capacity{MaxConcurrentJobs: p.limits.Concurrent, MaxContextTokens: p.limits.ContextTokens, MaxMemoryMB: p.limits.MemoryMB, MaxCPUs: p.limits.CPUs},
		Stability:          Stability{JobsCompleted: st.Succeeded, AvgLatencyMs: st.AvgLatencyMs},
		Amount:             "free",
		SupportsEncryption: p.cfg.Cipher != nil, EncryptionSupported: p.cfg.Cipher != nil,
		NIP90Params: map[string]NIP90Key{"schema": {Required: true}, "payment_mode": {}, "delivery": {}},
		Lightwork: Extension{
			Version: 1, PolicyBundleID: p.policyID.String(), Modes: map[string][]receipts.Mode{},
			BaseMsats: map[string]int64{}, Prices: map[string]receipts.Price{}, FreePoW: p.limits.FreePoW, HostImage: p.cfg.Images.HostDigest, Confinement: p.cfg.Images.Confinement,
			PayeeNode: p.node.PubKey, Network: p.node.Network,
		},
	}
	if p.admission() != AdmissionOpen {
		a.Capacity.MaxConcurrentJobs, a.Lightwork.Paused = 0, true
	}
	if done := st.Succeeded + st.Failed; done > 0 {
		a.Stability.SuccessRate = float64(st.Succeeded) / float64(done)
	}
	withdrawn := p.withdrawn()
	if len(withdrawn) == len(p.cfg.Offers) {
		a.Capacity.MaxConcurrentJobs, a.Lightwork.Paused = 0, true
	}
	for _, o := range p.cfg.Offers {
		if slices.Contains(withdrawn, o.SchemaID) {
			continue
		}
		a.Capabilities.SupportedJobs = append(a.Capabilities.SupportedJobs, o.SchemaID)
		a.Lightwork.Modes[o.SchemaID] = o.Modes
		a.Lightwork.BaseMsats[o.SchemaID] = o.BaseMsats
		a.Lightwork.Prices[o.SchemaID] = o.table()
		if o.SchemaID == string(schemas.SandboxRun) {
			a.Pricing.SandboxMin = o.PerMinuteMsats
		}
		a.Pricing.InputTokens = max(a.Pricing.InputTokens, o.InputMsats)
		a.Pricing.OutputTokens = max(a.Pricing.OutputTokens, o.OutputMsats)
		if o.Modes[0] != receipts.ModeFree {
			a.Amount = "flexible"
		}
		if o.SchemaID == string(schemas.TextGeneration) {
			a.NIP90Params["schema"] = NIP90Key{} // untyped requests are texts to write
			for _, param := range []string{"max_tokens", "temperature", "top_p", "seed"} {
				a.NIP90Params[param] = NIP90Key{}
			}
		}
	}
	schema := a.NIP90Params["schema"]
	schema.Values = a.Capabilities.SupportedJobs
	a.NIP90Params["schema"] = schema
	return a, nil
}

func (p *Provider) hardware() Hardware {
	h := p.cfg.Hardware
	def(&h.GPUType, "none")
	return h
}

func (p *Provider) serveAnnouncement(ctx context.Context) error {
	select {
	case <-p.listening:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := p.announce(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("announce", "err", err)
		}
		select {
		case <-time.After(announceEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// announcing lets one announcement be made at a time, and each in a second of its
// own: of two with the same date relays keep the one whose id is lower, so that a
// provider could seem paused for an hour after it was resumed.
type announcing struct {
	mu     sync.Mutex
	last   int64 // the second of the last one, Unix; guarded by mu
	paused bool  // what the last one says; guarded by mu
}

// differs reports whether the last announcement says otherwise. What it says is what
// was true when it was made, which no look at another moment tells.
func (a *announcing) differs(paused bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last != 0 && a.paused != paused
}

// begin waits for the next second if need be. It returns with mu held, unless ctx ended.
func (a *announcing) begin(ctx context.Context) error {
	a.mu.Lock()
	for time.Now().Unix() == a.last {
		select {
		case <-time.After(time.Until(time.Unix(a.last+1, 0))):
		case <-ctx.Done():
			a.mu.Unlock()
			return ctx.Err()
		}
	}
	return nil
}

// end is called once the announcement is dated.
func (a *announcing) end() {
	a.last = time.Now().Unix()
	a.mu.Unlock()
}

func (p *Provider) announce(ctx context.Context) error {
	if err := p.announcing.begin(ctx); err != nil {
		return err
	}
	defer p.announcing.end()
	a, err := p.announcement(ctx)
	if err != nil {
		return err
	}
	ev, err := p.announcementEvent(ctx, a)
	if err != nil {
		return err
	}
	out, err := p.pub.Queue(ev, "")
	if err != nil {
		return err
	}
	all, err := p.profileEvents(ctx, a)
	if err != nil {
		return err
	}
	all = append(all, out)
	if err := p.cfg.Store.Enqueue(ctx, all...); err != nil {
		return err
	}
	p.announcing.paused = a.Lightwork.Paused
	p.pub.Send(all...)
	return nil
}

func (p *Provider) announcementEvent(ctx context.Context, a Announcement) (nostr.Event, error) {
	content, err := json.Marshal(a)
	if err != nil {
		return nostr.Event{}, err
	}
	tags := nostr.Tags{{"d", p.d()}, {"k", strconv.Itoa(p.kinds.Request)}}
	for _, kind := range p.kinds.Also {
		tags = append(tags, nostr.Tag{"k", strconv.Itoa(kind)})
	}
	for _, job := range a.Capabilities.SupportedJobs {
		tags = append(tags, nostr.Tag{"t", job})
	}
	return p.pub.Sign(ctx, kinds.Announcement, domain.Announcement, tags, string(content))
}
