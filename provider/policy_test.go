package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// A provider sells under no manifest that a reader of its bundles would refuse.
func TestPolicyIsReadable(t *testing.T) {
	w := markettest.New(t)
	for name, policy := range map[string]receipts.Policy{
		"":         markettest.Policy(),
		"version":  {Producer: "test"},
		"producer": {Version: 1},
		"tables":   {Version: 1, Producer: "test", Tables: map[string][]receipts.PolicyRoute{"jobs": {{Tag: "run\x1b"}}}},
	} {
		cfg := w.Config(w.Connect(t, w.Seller.Key))
		cfg.Policy = policy
		_, err := provider.New(cfg)
		if (err == nil) != (name == "") || err != nil && (!errors.Is(err, receipts.ErrInvalid) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
