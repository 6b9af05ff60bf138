package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/receipts"
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
