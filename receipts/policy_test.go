package receipts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// badPolicy is a manifest that every reader refuses.
type badPolicy struct{ name, doc string }

// badPolicies change one thing in a good manifest each.
func badPolicies() (list []badPolicy) {
	for _, c := range []struct{ name, from, to string }{
		{"not canonical", `"version":1`, `"version": 1`},
		{"another version", `"version":1}`, `"version":2}`},
		{"no version", `,"version":1}`, `}`},
		{"unknown field", `"tools":{`, `"tiers":{},"tools":{`},
		{"unknown field of a price", `"per_minute_msats":21000`, `"per_minute_msats":21000,"tip_msats":1`},
		{"unknown field of a tool", `,"version":"1"}`, `,"version":"1","when":1}`},
		{"doubled field", `"queue":8`, `"queue":8,"queue":8`},
		{"no tables", `"tables":{"jobs":[{"handler":"sandbox","tag":"run"}]},`, ``},
		{"null tables", `{"jobs":[{"handler":"sandbox","tag":"run"}]}`, `null`},
		{"null rows", `[{"handler":"sandbox","tag":"run"}]`, `null`},
		{"a row without a tag", `,"tag":"run"`, ``},
		{"empty producer", `"lightwork@1"`, `""`},
		{"control character", `"lightwork@1"`, `"light\u001bwork"`},
		{"long producer", `lightwork@1`, strings.Repeat("l", 257)},
		{"negative price", `"per_minute_msats":21000`, `"per_minute_msats":-1`},
		{"large price", `"per_minute_msats":21000`, `"per_minute_msats":9007199254740992`},
		{"fractional price", `"per_minute_msats":21000`, `"per_minute_msats":0.5`},
		{"engagement of zero", `"input_tokens`, `"engagement_msats":0,"input_tokens`},
		{"output without a limit", `"output_tokens_per_1k_msats":0`, `"output_tokens_per_1k_msats":5`},
		{"unknown mode", `"postpay"`, `"postpaid"`},
		{"doubled mode", `"postpay"`, `"hold"`},
		{"no mode", `["hold","postpay"]`, `[]`},
		{"doubled job type", `"prices":[`, `"prices":[` + offerOf(policyDoc) + `,`},
		{"no schema id", `"schema_id":"oa.sandbox_run.v1"`, `"schema_id":"sandbox_run"`},
		{"job without a schema id", `"jobs":{"oa.sandbox_run.v1"`, `"jobs":{"sandbox_run"`},
		{"zero document", `"sha256:` + strings.Repeat("b", 64), `"sha256:` + strings.Repeat("0", 64)},
		{"unknown verification", `"objective"`, `"objectively"`},
		{"negative limit", `"queue":8`, `"queue":-8`},
		{"limit with an exponent", `"queue":8`, `"queue":1e+21`},
		{"limit as text", `"queue":8`, `"queue":"8"`},
		{"image as a number", `"registered":[]`, `"registered":[1]`},
		{"null images", `"registered":[]`, `"registered":null`},
		{"null model", `"embed":""`, `"embed":null`},
	} {
		list = append(list, badPolicy{c.name, strings.Replace(policyDoc, c.from, c.to, 1)})
	}
	return append(list, badPolicy{"empty", "{}"}, badPolicy{"a list", "[]"})
}

// offerOf is the one price of the manifest.
func offerOf(doc string) string {
	_, rest, _ := strings.Cut(doc, `"prices":[`)
	offer, _, _ := strings.Cut(rest, `],"producer"`)
	return offer
}

func TestPolicyRoundTrip(t *testing.T) {
	p := must(receipts.ParsePolicy([]byte(policyDoc)))
	if diff := cmp.Diff(policyDoc, string(must(p.Canonical()))); diff != "" {
		t.Error(diff)
	}
	if p.Prices[0].Price.PerMinuteMsats != 21000 || p.Tools["oa.sandbox_run.v1"].Tool != "sandbox/run" || p.Limits.QuoteTTLMs != 60000 {
		t.Errorf("read as %+v", p)
	}

	least := must(receipts.Policy{Version: 1, Producer: "x", Tables: map[string][]receipts.PolicyRoute{"a": nil}}.Canonical())
	if strings.Contains(string(least), "null") {
		t.Errorf("a manifest has nulls: %s", least)
	}
	if _, err := receipts.ParsePolicy(least); err != nil {
		t.Error(err)
	}
}

func TestPolicyRefuses(t *testing.T) {
	for _, bad := range badPolicies() {
		if bad.doc == policyDoc {
			t.Errorf("%s: nothing is changed", bad.name)
		}
		if _, err := receipts.ParsePolicy([]byte(bad.doc)); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", bad.name, err)
		}
	}
	large := strings.Replace(policyDoc, `"registered":[]`, `"registered":["`+strings.Repeat(`x","`, receipts.MaxPolicyBytes/4)+`x"]`, 1)
	if _, err := receipts.ParsePolicy([]byte(large)); !errors.Is(err, receipts.ErrInvalid) || !strings.Contains(err.Error(), "policy of more than") {
		t.Errorf("a large one: %v", err)
	}
	many := receipts.Policy{Version: 1, Producer: "x", Images: receipts.PolicyImages{Registered: strings.Split(strings.Repeat("xx ", receipts.MaxPolicyBytes/3)+"x", " ")}}
	if _, err := many.Canonical(); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("a large one is made: %v", err)
	}
}

// A batch knows a manifest that it has read, and by its bytes alone.
func TestBatchReadsEachPolicy(t *testing.T) {
	var batch receipts.Batch
	good := recipe{}.make().bundle
	for range 2 {
		batch.Add(good, pins())
	}
	const bad = "{}"
	batch.Add(recipe{
		quote:     func(q *receipts.Quote) { q.PolicyBundleID = hashing.Bytes([]byte(bad)) },
		delivered: func(t *receipts.ResultTerms) { t.PolicyBundleID = hashing.Bytes([]byte(bad)) },
		finished:  func(b *receipts.Bundle) { b.Policy = []byte(bad) },
	}.make().bundle, pins())
	batch.Add(good, pins())
	for i, r := range batch.Verify() {
		want := map[string]receipts.State{}
		if i == 2 {
			want[receipts.ClaimPolicy] = receipts.Failed
		}
		wantStates(t, r, want)
	}
}
