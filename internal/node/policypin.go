package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// followPin gives the configuration the prices and limits of the pinned bundle;
// nil if none is pinned. checkPin says afterwards whether all of it is followed.
func followPin(ctx context.Context, c *Node, k *store.Store) (pinned []byte, err error) {
	pin, err := c.PolicyPin().Read()
	if err != nil || pin == nil {
		return nil, err
	}
	doc, err := k.Sales(jobsProfile).Content(ctx, *pin)
	if err != nil {
		return nil, advice.Usage(advice.ListPolicies+" shows what there is; "+advice.UnpinPolicy+" removes the pin", "the pinned policy bundle %s is not here: %w", display.Short(pin.String()), err)
	}
	under, err := receipts.ParsePolicy(doc)
	if err != nil {
		return nil, advice.Usage(advice.UnpinPolicy+" removes the pin", "the pinned policy bundle %s: %w", display.Short(pin.String()), err)
	}
	c.Provider.Offers = nil

	for _, o := range under.Prices {
		p := o.Price
		c.Provider.Offers = append(c.Provider.Offers, config.Offer{
			Schema: o.SchemaID, Tool: under.Tools[o.SchemaID].Tool, Modes: o.Modes, BaseMsats: p.BaseMsats, PerMinuteMsats: p.PerMinuteMsats,
			InputMsats: p.InputMsats, OutputMsats: p.OutputMsats, MaxOutputTokens: p.MaxOutputTokens,
			EngagementMsats: p.EngagementMsats,
		})
	}

	l := &c.Provider.Limits
	l.Concurrent, l.Queue, l.FreePoW = int(under.Limits.Concurrent), int(under.Limits.Queue), int(under.Limits.FreePoWBits)
	l.ContextTokens = int(under.Limits.ContextTokens)
	l.QuoteTTL = time.Duration(under.Limits.QuoteTTLMs) * time.Millisecond
	if bad := c.Check(); len(bad) > 0 {
		return nil, advice.Usage(advice.UnpinPolicy+" removes the pin", "the pinned policy bundle does not fit this node: %s: %s", strings.TrimPrefix(bad[0].Path, "$."), bad[0].Why)
	}
	return doc, nil
}

// checkPin refuses to sell under anything but the pinned bundle.
func checkPin(pinned []byte, policy receipts.Policy) error {
	manifest, err := policy.Canonical()
	if err != nil || pinned == nil || bytes.Equal(pinned, manifest) {
		return err
	}
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(pinned, &was); err != nil {
		return err
	}
	if err := json.Unmarshal(manifest, &is); err != nil {
		return err
	}

	var differ []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if !bytes.Equal(was[key], is[key]) {
			differ = append(differ, key)
		}
		delete(is, key)
	}

	differ = append(differ, slices.Sorted(maps.Keys(is))...)
	return advice.Usage("bring those back, or "+advice.UnpinPolicy, "this node is no longer what the pinned policy bundle %s says: %s differ",
		display.Short(hashing.Bytes(pinned).String()), strings.Join(differ, ", "))
}

// PolicyPin names the policy bundle that the provider sells under, whatever the
// configuration says of prices and limits.
type PolicyPin struct{ file string }

// PolicyPin is that of this node.
func (c *Node) PolicyPin() PolicyPin {
	return PolicyPin{filepath.Join(c.DataDir("provider"), "policy.pin")}
}

// Read is the id of the bundle that is pinned; nil if none is.
func (p PolicyPin) Read() (*hashing.Digest, error) {
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	d, err := hashing.ParseDigest(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, advice.Usage(advice.UnpinPolicy+" removes it", "%s: %w", p.file, err)
	}
	return &d, nil
}

// Set pins a bundle, from the next start on.
func (p PolicyPin) Set(id hashing.Digest) error {
	if err := os.WriteFile(p.file+".new", []byte(id.String()+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(p.file+".new", p.file)
}

// Remove pins none, from the next start on.
func (p PolicyPin) Remove() error {
	if err := os.Remove(p.file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Priced is what a request costs at the provider of a node.
type Priced struct {
	SchemaID        string          `json:"schema_id"`
	Modes           []receipts.Mode `json:"modes"`
	Parts           []PricePart     `json:"parts"`
	PriceMsats      int64           `json:"price_msats"`
	EngagementMsats int64           `json:"engagement_msats"`
	// NotTaken are the reasons for which no such request is taken now.
	NotTaken []string `json:"not_taken,omitempty"`
}

// PricePart is what one line of the price table adds.
type PricePart struct {
	What  string `json:"what"`
	Msats int64  `json:"msats"`
}

// MarketPrice is what another provider's price table asks for a request, without a fee for
// the attempt.
type MarketPrice struct {
	Provider string `json:"provider"` // hex
	Msats    int64  `json:"msats"`
}

// PriceOf prices a request by the configuration or, if one is pinned, by the policy
// bundle; without a job type it is of the only one on offer.
func (c *Node) PriceOf(ctx context.Context, schemaID string, doc []byte) (p Priced, err error) {
	prices, err := c.prices(ctx)
	if err != nil {
		return p, err
	}
	if schemaID == "" && len(prices) == 1 {
		schemaID = prices[0].SchemaID
	}
	req, err := requestOf(schemaID, doc)
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(prices, func(p receipts.PolicyPrice) bool { return p.SchemaID == string(req.SchemaID) })
	if i < 0 {
		return p, advice.Usage("add an entry under provider.offers", "%s is not on offer", req.SchemaID)
	}

	table := prices[i].Price
	p = Priced{SchemaID: string(req.SchemaID), Modes: prices[i].Modes}
	msats, ok := table.For(req)
	if !ok {
		return p, fmt.Errorf("the request is refused: it asks for more than %d tokens of output, or its price is more than there is", table.MaxOutputTokens)
	}
	p.PriceMsats, p.EngagementMsats, p.Parts = msats, table.Engagement(req, false), partsOf(table, req)

	if a := c.Admission().Word(); a != provider.AdmissionOpen {
		p.NotTaken = append(p.NotTaken, "the provider is "+string(a)+"; "+advice.Resume+" takes jobs again")
	}
	if c.Admission().IsDrained(p.SchemaID) {
		p.NotTaken = append(p.NotTaken, p.SchemaID+" is drained; "+advice.With(advice.ResumeJob, p.SchemaID)+" takes jobs again")
	}
	return p, nil
}

// prices are those of the configuration or of the pinned policy bundle.
func (c *Node) prices(ctx context.Context) (all []receipts.PolicyPrice, err error) {
	pin, err := c.PolicyPin().Read()
	if err != nil || pin == nil {
		return offersOf(c.Config), err
	}
	err = c.Databases().ReadSales(ctx, func(sold *Sales) error {
		if sold == nil {
			return errors.New("the pinned policy bundle is not here")
		}
		doc, err := sold.Policy(ctx, *pin)
		if err != nil {
			return err
		}
		under, err := receipts.ParsePolicy(doc)
		all = under.Prices
		return err
	})
	return all, err
}

// sale is what is sold while a provider runs.
type sale struct {
	c      *Node          // as its start has it, with the pinned policy if there is one
	began  *config.Config // as it was read when the node began
	seller *provider.Provider
	wallet wallets.Wallet
	goods  *stock
	tell   *SaleLog
	keep   func([]config.Offer) // for a further start of the role

	mu     sync.Mutex
	policy receipts.Policy // that is sold under now; guarded by mu
}

// Repriced is what came of reading the prices again.
type Repriced struct {
	PolicyID string        `json:"policy_id"`
	Changes  []PriceChange `json:"changes"`
	// Later are further parts of the configuration that differ from when the node began:
	// they count from the next start on.
	Later []string `json:"later"`
}

// PriceChange is an offer whose price or modes have changed.
type PriceChange struct {
	SchemaID string               `json:"schema_id"`
	Old      receipts.PolicyPrice `json:"old"`
	New      receipts.PolicyPrice `json:"new"`
}

// readPrices names the call that has a running provider read its prices again.
const readPrices = "reprice"

// Reprice has the provider that runs read the prices of its configuration again. The error
// is [host.ErrNoNode] if none runs, and a [host.CallError] if it refused: nothing has
// changed then.
func (c *Node) Reprice(ctx context.Context) (done Repriced, err error) {
	running, err := host.Dial(ctx, c.controlSocket())
	if err != nil {
		return done, err
	}
	return done, running.Node(ctx, readPrices, struct{}{}, &done)
}

// reprice reads the configuration again, and sells at its prices. Job types and their
// tools are of a start: the agents that do the jobs, and what a policy says of them.
func (s *sale) reprice(ctx context.Context) (done Repriced, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	pin, err := s.c.PolicyPin().Read()
	if err != nil {
		return done, err
	}
	if pin != nil {
		return done, fmt.Errorf("the policy bundle %s is pinned, which has the prices; unpin it and start the provider anew", display.Short(pin.String()))
	}
	read, err := s.began.Again()
	if err != nil {
		return done, err
	}
	if err := sameJobs(s.c.Provider.Offers, read.Provider.Offers); err != nil {
		return done, err
	}

	offers, unpaid, less, err := wallets.Payable(ctx, s.wallet, read.Offers())
	if err != nil {
		return done, err
	}
	for _, o := range offers {
		if why := unpaid[o.SchemaID]; why != "" {
			return done, fmt.Errorf("%s cannot be sold: %s", o.SchemaID, why)
		}
	}

	policy := s.policy
	policy.Prices = offersOf(read)
	if err := s.seller.Reprice(ctx, offers, policy); err != nil {
		return done, err
	}
	done.Changes, done.Later = changesOf(s.policy.Prices, policy.Prices), s.began.Differs(read)
	s.policy = policy
	s.goods.setUnpaid(unpaid)
	s.keep(read.Provider.Offers)

	for _, why := range less {
		s.tell.say("%s", why)
	}
	manifest, err := policy.Canonical()
	if err != nil {
		return done, err
	}
	done.PolicyID = hashing.Bytes(manifest).String()
	s.tell.say("prices were read again, %s; open jobs end at the price of their quote", display.Count(int64(len(done.Changes)), "change"))
	return done, nil
}

// sameJobs refuses other job types, or other tools for them.
func sameJobs(now, read []config.Offer) error {
	tools := map[string]string{}
	for _, o := range now {
		tools[o.Schema] = o.Tool
	}
	for _, o := range read {
		tool, sold := tools[o.Schema]
		switch {
		case !sold:
			return fmt.Errorf("%s is on offer in the configuration and not sold by the provider that runs: another job type needs a start", o.Schema)
		case tool != o.Tool:
			return fmt.Errorf("%s has another tool in the configuration: that needs a start", o.Schema)
		}
		delete(tools, o.Schema)
	}
	for _, id := range slices.Sorted(maps.Keys(tools)) {
		return fmt.Errorf("%s is sold by the provider that runs, and no longer in the configuration: a start takes it from sale, and draining it takes no new jobs of it at once", id)
	}
	return nil
}

// changesOf are the offers whose price or modes differ.
func changesOf(old, now []receipts.PolicyPrice) []PriceChange {
	changes := []PriceChange{}
	for _, n := range now {
		i := slices.IndexFunc(old, func(o receipts.PolicyPrice) bool { return o.SchemaID == n.SchemaID })
		if i >= 0 && (old[i].Price != n.Price || !slices.Equal(old[i].Modes, n.Modes)) {
			changes = append(changes, PriceChange{n.SchemaID, old[i], n})
		}
	}
	return changes
}

func requestOf(schemaID string, doc []byte) (*schemas.Request, error) {
	s, ok := schemas.Lookup(schemaID)
	if !ok {
		return nil, advice.Usage(advice.ListSchemas+" shows them", "%q is no job type", schemaID)
	}
	req, err := s.ParseRequest(doc)
	if err != nil {
		return nil, advice.Usage(advice.With(advice.ShowInput, schemaID)+" prints its form", "the request: %w", err)
	}
	return req, nil
}

// partsOf is the price of a request, one line of the table after the other.
func partsOf(table receipts.Price, req *schemas.Request) (parts []PricePart) {
	minutes := max(1, int64((receipts.RunLimit(req)+time.Minute-1)/time.Minute))
	for _, line := range []struct {
		what string
		only receipts.Price
	}{
		{"for the job", receipts.Price{BaseMsats: table.BaseMsats}},
		{"for " + display.Count(minutes, "minute") + " at most", receipts.Price{PerMinuteMsats: table.PerMinuteMsats}},
		{fmt.Sprintf("for %d tokens of input", receipts.InputTokens(req)), receipts.Price{InputMsats: table.InputMsats}},
		{"for its output at most", receipts.Price{OutputMsats: table.OutputMsats, MaxOutputTokens: table.MaxOutputTokens}},
	} {
		if msats, ok := line.only.For(req); ok && msats > 0 {
			parts = append(parts, PricePart{line.what, msats})
		}
	}
	return parts
}

// PricesOf is what other providers announce for a request, the lowest first.
func (m Market) PricesOf(ctx context.Context, schemaID string, doc []byte) ([]MarketPrice, error) {
	req, err := requestOf(schemaID, doc)
	if err != nil {
		return nil, err
	}
	own, err := ownKey(m.c.Config)
	if err != nil {
		return nil, err
	}
	found, err := m.Discover(ctx, schemaID)
	if err != nil {
		return nil, err
	}

	all := []MarketPrice{}
	for _, f := range found {
		if msats, ok := f.Price(req); ok && f.Provider != own {
			all = append(all, MarketPrice{f.Provider, msats})
		}
	}
	slices.SortFunc(all, func(a, b MarketPrice) int { return cmp.Compare(a.Msats, b.Msats) })
	return all, nil
}

// ownKey is the provider's public key, as its file tells it without a passphrase.
func ownKey(c *config.Config) (string, error) {
	key, err := keys.Read(c, "provider")
	return key.Public, err
}
