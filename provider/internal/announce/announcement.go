package announce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
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
	Retention      *receipts.Retention        `json:"retention,omitempty"`
	Tree           *tree.Terms                `json:"tree,omitempty"`
}

// announcement says what this provider offers right now, at the prices of a list.
func (a *Announcer) announcement(ctx context.Context, list *job.PriceList) (Announcement, error) {
	st, err := a.cfg.Store.Stats(ctx)
	if err != nil {
		return Announcement{}, fmt.Errorf("read own record: %w", err)
	}
	pr, node := a.cfg.Profile, a.cfg.Node()
	hardware := a.cfg.Hardware
	hardware.GPUType = cmp.Or(hardware.GPUType, "none")
	said := Announcement{
		Name: pr.Name, About: pr.About, Picture: pr.Picture, Website: pr.Website, LUD16: pr.LUD16, NIP05: pr.NIP05,
		SupplyClass:        "SingleNode",
		Capabilities:       Capabilities{SupportedJobs: []string{}, Models: append([]string{}, pr.Models...), Hardware: hardware},
		Capacity:           a.cfg.Capacity,
		Stability:          Stability{JobsCompleted: st.Succeeded, AvgLatencyMs: st.AvgLatencyMs},
		Amount:             "free",
		SupportsEncryption: a.cfg.Encrypts, EncryptionSupported: a.cfg.Encrypts,
		NIP90Params: map[string]NIP90Key{"schema": {Required: true}, "payment_mode": {}, "delivery": {}},
		Lightwork: Extension{
			Version: 1, PolicyBundleID: list.PolicyID.String(), Modes: map[string][]receipts.Mode{},
			BaseMsats: map[string]int64{}, Prices: map[string]receipts.Price{}, FreePoW: a.cfg.FreePoW, HostImage: a.cfg.HostImage, Confinement: a.cfg.Confinement,
			PayeeNode: node.PubKey, Network: node.Network, Retention: a.cfg.Retention, Tree: a.cfg.Tree,
		},
	}
	if a.cfg.Paused() {
		said.Capacity.MaxConcurrentJobs, said.Lightwork.Paused = 0, true
	}
	if done := st.Succeeded + st.Failed; done > 0 {
		said.Stability.SuccessRate = float64(st.Succeeded) / float64(done)
	}
	withdrawn := a.cfg.Withdrawn()
	if len(withdrawn) == len(list.Offers) {
		said.Capacity.MaxConcurrentJobs, said.Lightwork.Paused = 0, true
	}

	for _, o := range list.Offers {
		if slices.Contains(withdrawn, o.SchemaID) {
			continue
		}
		said.Capabilities.SupportedJobs = append(said.Capabilities.SupportedJobs, o.SchemaID)
		said.Lightwork.Modes[o.SchemaID] = o.Modes
		said.Lightwork.BaseMsats[o.SchemaID] = o.BaseMsats
		said.Lightwork.Prices[o.SchemaID] = o.Table()
		if o.SchemaID == string(schemas.SandboxRun) {
			said.Pricing.SandboxMin = o.PerMinuteMsats
		}
		said.Pricing.InputTokens = max(said.Pricing.InputTokens, o.InputMsats)
		said.Pricing.OutputTokens = max(said.Pricing.OutputTokens, o.OutputMsats)
		if o.Modes[0] != receipts.ModeFree {
			said.Amount = "flexible"
		}
		if o.SchemaID == string(schemas.TextGeneration) {
			said.NIP90Params["schema"] = NIP90Key{} // untyped requests are texts to write
			for _, param := range []string{"max_tokens", "temperature", "top_p", "seed"} {
				said.NIP90Params[param] = NIP90Key{}
			}
		}
	}

	schema := said.NIP90Params["schema"]
	schema.Values = said.Capabilities.SupportedJobs
	said.NIP90Params["schema"] = schema
	return said, nil
}
