package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/receipts"
)

// soldUnder is the part of a policy manifest that a configuration can follow:
// what is sold, by which tool, at which price and within which limits. The rest
// describes the node itself, and has to be as it was.
type soldUnder struct {
	Prices []struct {
		SchemaID string          `json:"schema_id"`
		Modes    []receipts.Mode `json:"modes"`
		Price    receipts.Price  `json:"price"`
	} `json:"prices"`
	Tools map[string]struct {
		Tool string `json:"tool"`
	} `json:"tools"`
	Limits struct {
		Concurrent int   `json:"concurrent"`
		Queue      int   `json:"queue"`
		QuoteTTLMs int64 `json:"quote_ttl_ms"`
		FreePoW    int   `json:"free_pow_bits"`
		Context    int   `json:"context_tokens"`
	} `json:"limits"`
}

// followPin gives the configuration the prices and limits of the pinned bundle;
// nil if none is pinned. checkPin says afterwards whether all of it is followed.
func (c *config) followPin(ctx context.Context, k *kernel.Kernel) (pinned []byte, err error) {
	pin, err := c.policyPin()
	if err != nil || pin == nil {
		return nil, err
	}
	doc, err := k.ProviderStore(jobsProfile).Content(ctx, *pin)
	if err != nil {
		return nil, usage("lightwork policy list shows what there is; policy unpin removes the pin", "the pinned policy bundle %s is not here: %w", short(pin.String()), err)
	}
	var under soldUnder
	if err := json.Unmarshal(doc, &under); err != nil {
		return nil, fmt.Errorf("policy bundle %s: %w", short(pin.String()), err)
	}
	c.Provider.Offers = nil
	for _, o := range under.Prices {
		p := o.Price
		c.Provider.Offers = append(c.Provider.Offers, offerConfig{
			Schema: o.SchemaID, Tool: under.Tools[o.SchemaID].Tool, Modes: o.Modes, BaseMsats: p.BaseMsats, PerMinuteMsats: p.PerMinuteMsats,
			InputMsats: p.InputMsats, OutputMsats: p.OutputMsats, MaxOutputTokens: p.MaxOutputTokens,
			EngagementMsats: p.EngagementMsats,
		})
	}
	l := &c.Provider.Limits
	l.Concurrent, l.Queue, l.FreePoW = under.Limits.Concurrent, under.Limits.Queue, under.Limits.FreePoW
	l.ContextTokens = under.Limits.Context
	l.QuoteTTL = time.Duration(under.Limits.QuoteTTLMs) * time.Millisecond
	if bad := c.check(); len(bad) > 0 {
		return nil, usage("lightwork policy unpin removes the pin", "the pinned policy bundle does not fit this node: %s: %s", strings.TrimPrefix(bad[0].path, "$."), bad[0].why)
	}
	return doc, nil
}

// checkPin refuses to sell under anything but the pinned bundle.
func checkPin(pinned, manifest []byte) error {
	if pinned == nil || bytes.Equal(pinned, manifest) {
		return nil
	}
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(pinned, &was); err != nil {
		return err
	}
	if err := json.Unmarshal(manifest, &is); err != nil {
		return err
	}
	var differ []string
	for _, key := range sortedKeys(was) {
		if !bytes.Equal(was[key], is[key]) {
			differ = append(differ, key)
		}
		delete(is, key)
	}
	differ = append(differ, sortedKeys(is)...)
	return usage("bring those back, or lightwork policy unpin", "this node is no longer what the pinned policy bundle %s says: %s differ",
		short(hashing.Bytes(pinned).String()), strings.Join(differ, ", "))
}
