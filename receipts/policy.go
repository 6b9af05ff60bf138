package receipts

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// Policy is POLICY.json: the prices, programs and limits that a provider's jobs run
// under. Its hash is the policy_bundle_id of quotes, results and receipts.
type Policy struct {
	Version  int                      `json:"version"`
	Producer string                   `json:"producer"` // the program, such as lightwork@1.2.3
	Prices   []PolicyPrice            `json:"prices"`
	Jobs     map[string]PolicyJob     `json:"jobs"`   // by schema id
	Tools    map[string]PolicyTool    `json:"tools"`  // by schema id
	Tables   map[string][]PolicyRoute `json:"tables"` // by profile
	Limits   PolicyLimits             `json:"limits"`
	Images   PolicyImages             `json:"images"`
	Models   PolicyModels             `json:"models"`
}

// PolicyPrice is the price of one job type, and its modes.
type PolicyPrice struct {
	SchemaID string `json:"schema_id"`
	Modes    []Mode `json:"modes"`
	Price    Price  `json:"price"`
}

// PolicyJob is how the results of one job type are judged.
type PolicyJob struct {
	VerificationMode schemas.Mode      `json:"verification_mode"`
	HashRules        schemas.HashRules `json:"hash_rules"`
	DocumentHash     hashing.Digest    `json:"document_hash"` // of the schema's document
}

// PolicyTool is the agent's tool that does one job type. Version and ManifestHash are ""
// if the agent does not name them.
type PolicyTool struct {
	Tool         string `json:"tool"` // agent/tool
	Version      string `json:"version"`
	ManifestHash string `json:"manifest_hash"`
}

// PolicyRoute is a row of a profile's dispatch table.
type PolicyRoute struct {
	Tag     string `json:"tag"`
	Handler string `json:"handler"`
}

// PolicyLimits are the provider's limits of admission.
type PolicyLimits struct {
	Concurrent    int64 `json:"concurrent"`
	Queue         int64 `json:"queue"`
	QuoteTTLMs    int64 `json:"quote_ttl_ms"`
	FreePoWBits   int64 `json:"free_pow_bits"`
	ContextTokens int64 `json:"context_tokens"`
}

// PolicyImages are the root file systems in which commands run.
type PolicyImages struct {
	Host       string   `json:"host"`
	Registered []string `json:"registered"`
}

// PolicyModels are the models that may give answers; "" for none.
type PolicyModels struct {
	Name  string `json:"name"`
	Embed string `json:"embed"`
}

// MaxPolicyBytes bounds a policy manifest.
const MaxPolicyBytes = maxDocument

// Canonical validates the manifest and returns its canonical JSON, in which nil lists
// and maps are empty ones. Errors wrap [ErrInvalid].
func (p Policy) Canonical() ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Prices = orEmpty(p.Prices)
	p.Images.Registered = orEmpty(p.Images.Registered)
	if p.Jobs == nil {
		p.Jobs = map[string]PolicyJob{}
	}
	if p.Tools == nil {
		p.Tools = map[string]PolicyTool{}
	}
	tables := map[string][]PolicyRoute{}
	for profile, rows := range p.Tables {
		tables[profile] = orEmpty(rows)
	}
	p.Tables = tables

	doc, err := hashing.CanonicalValue(p)
	if err != nil {
		return nil, fmt.Errorf("%w: policy: %w", ErrInvalid, err)
	}
	if len(doc) > MaxPolicyBytes {
		return nil, policyTooLarge()
	}

	return doc, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func policyTooLarge() error {
	return fmt.Errorf("%w: policy of more than %d bytes", ErrInvalid, MaxPolicyBytes)
}

// ParsePolicy reads a policy manifest, which must be its own canonical form. Errors
// wrap ErrInvalid.
func ParsePolicy(doc []byte) (Policy, error) {
	if len(doc) > MaxPolicyBytes {
		return Policy{}, policyTooLarge()
	}
	return parseCanonical[Policy]("policy", doc)
}

func (p Policy) validate() error {
	c := checks{document: "policy"}
	c.version(p.Version)
	c.text("producer", p.Producer)

	sold := map[string]bool{}
	for _, offer := range p.Prices {
		c.schema("prices.schema_id", offer.SchemaID)
		c.that(!sold[offer.SchemaID], "prices have a job type twice")
		sold[offer.SchemaID] = true
		c.policyModes(offer.Modes)
		c.that(offer.Price.Valid(), "prices.price is none to compute with")
	}

	for _, id := range slices.Sorted(maps.Keys(p.Jobs)) {
		job := p.Jobs[id]
		c.schema("a name in jobs", id)
		c.that(isOneOf(string(job.VerificationMode), string(schemas.Objective), string(schemas.Subjective)), "jobs.verification_mode is unknown")
		c.text("jobs.hash_rules.algorithm", job.HashRules.Algorithm)
		c.text("jobs.hash_rules.canonicalization", job.HashRules.Canonicalization)
		c.text("jobs.hash_rules.scope", job.HashRules.Scope)
		c.digest("jobs.document_hash", job.DocumentHash)
	}

	for _, id := range slices.Sorted(maps.Keys(p.Tools)) {
		tool := p.Tools[id]
		c.schema("a name in tools", id)
		c.text("tools.tool", tool.Tool)
		c.textOrNone("tools.version", tool.Version)
		c.textOrNone("tools.manifest_hash", tool.ManifestHash)
	}

	for _, profile := range slices.Sorted(maps.Keys(p.Tables)) {
		c.text("a name in tables", profile)
		for _, row := range p.Tables[profile] {
			c.text("tables.tag", row.Tag)
			c.text("tables.handler", row.Handler)
		}
	}

	l := p.Limits
	for name, n := range map[string]int64{
		"concurrent": l.Concurrent, "queue": l.Queue, "quote_ttl_ms": l.QuoteTTLMs, "free_pow_bits": l.FreePoWBits, "context_tokens": l.ContextTokens,
	} {
		c.that(n >= 0, "limits."+name+" is negative")
	}

	c.textOrNone("images.host", p.Images.Host)
	for _, image := range p.Images.Registered {
		c.text("images.registered", image)
	}
	c.textOrNone("models.name", p.Models.Name)
	c.textOrNone("models.embed", p.Models.Embed)
	return c.failed
}

func (c *checks) policyModes(modes []Mode) {
	c.that(len(modes) > 0, "prices.modes is empty")
	for i, m := range modes {
		c.that(isOneOf(string(m), string(ModeHold), string(ModePrepay), string(ModePostpay), string(ModeFree)), "prices.modes has an unknown one")
		c.that(!slices.Contains(modes[:i], m), "prices.modes has one twice")
	}
}

// textOrNone is text, but allows the empty string.
func (c *checks) textOrNone(field, s string) {
	if s != "" {
		c.text(field, s)
	}
}
