package buyer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// answer is a free job's result as an honest provider would send it; a case
// changes something.
type answer struct {
	result schemas.SandboxRunResult
	tags   nostr.Tags
	// over replaces the content after its hash was taken, if not "".
	over string
}

func (a *answer) set(name string, values ...string) {
	for i, t := range a.tags {
		if t[0] == name {
			a.tags[i] = append(nostr.Tag{name}, values...)
		}
	}
}

// result makes the 6050 of a free job.
func (c *cheat) result(req nostr.Event, change func(*answer)) nostr.Event {
	typed, err := receipts.RequestOf(req.Tags)
	if err != nil {
		c.t.Error(err)
	}
	s, _ := schemas.Lookup(typed.SchemaID)
	job, err := s.ParseRequest(typed.Input)
	if err != nil {
		c.t.Error(err)
	}
	echo, err := json.Marshal(req)
	if err != nil {
		c.t.Error(err)
	}
	a := answer{
		result: schemas.SandboxRunResult{
			EnvInfo:   schemas.SandboxEnv{ImageDigest: job.Value.(*schemas.SandboxRunRequest).Sandbox.ImageDigest},
			Runs:      []schemas.SandboxRunInfo{{Cmd: "true", StdoutSHA256: hashing.Bytes(nil), StderrSHA256: hashing.Bytes(nil)}},
			Artifacts: []schemas.SandboxArtifact{}, Status: schemas.StatusSuccess,
			Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: c.key.PublicKey()},
		},
		tags: nostr.Tags{
			{"request", string(echo)},
			{"e", req.ID},
			{"p", req.PubKey},
			{"amount", "0"},
			{"schema", typed.SchemaID},
			{"job_hash", job.JobHash.String()},
			{"output_hash", ""},
			{"quote_hash", hashing.Bytes(nil).String()},
			{"plan_hash", hashing.Bytes(nil).String()},
			{"trajectory_hash", hashing.Bytes(nil).String()},
			{"redacted_trajectory_hash", hashing.Bytes(nil).String()},
			{"replay_hash", hashing.Bytes(nil).String()},
			{"policy_bundle_id", hashing.Bytes(nil).String()},
			{"session_id", "session"},
			domain.Result.Tag(),
		},
	}
	change(&a)
	content, err := hashing.CanonicalValue(a.result)
	if err != nil {
		c.t.Error(err)
	}
	if a.tags.Find("output_hash")[1] == "" {
		a.set("output_hash", hashing.Bytes(content).String())
	}
	if a.over != "" {
		content = []byte(a.over)
	}
	return c.event(c.key, 6050, a.tags, string(content))
}

// TestHonestResultIsBelieved shows that the table below fails for its reasons only.
func TestHonestResultIsBelieved(t *testing.T) {
	c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		return []nostr.Event{c.result(req, func(*answer) {})}
	}, nil, buyer.Limits{})
	if err != nil || p.State != buyer.StateDone || p.Output == nil || len(c.sent) != 0 {
		t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
}

// TestFalseResultsAreNotBelieved: a result that does not fit the request is no
// result, whoever signed it.
func TestFalseResultsAreNotBelieved(t *testing.T) {
	digest := hashing.Bytes([]byte("blob")).String()
	for name, change := range map[string]func(*answer){
		"another job":            func(a *answer) { a.set("job_hash", digest) },
		"another request inside": func(a *answer) { a.set("request", `{"kind":5050,"content":"","tags":[],"created_at":1,"pubkey":"aa"}`) },
		"no request inside":      func(a *answer) { a.set("request", "none") },
		"another output":         func(a *answer) { a.set("output_hash", digest) },
		"output changed": func(a *answer) {
			raw, err := hashing.CanonicalValue(a.result)
			if err != nil {
				panic(err)
			}
			a.over = strings.Replace(string(raw), `"duration_ms":0`, `"duration_ms":1`, 1)
		},
		"no JSON":              func(a *answer) { a.over = "{" },
		"no output":            func(a *answer) { a.over = " " },
		"another command":      func(a *answer) { a.result.Runs[0].Cmd = "false" },
		"another image":        func(a *answer) { a.result.EnvInfo.ImageDigest = hashing.Bytes([]byte("x")) },
		"failure as success":   func(a *answer) { a.result.Runs[0].ExitCode = 1 },
		"success without runs": func(a *answer) { a.result.Runs = []schemas.SandboxRunInfo{} },
		"blob without digest":  func(a *answer) { a.tags = append(a.tags, nostr.Tag{"blob", "replay", "x", "1", "text/plain"}) },
		"blob of no size":      func(a *answer) { a.tags = append(a.tags, nostr.Tag{"blob", "replay", digest, "-1", "text/plain"}) },
		"blob too large": func(a *answer) {
			a.tags = append(a.tags, nostr.Tag{"blob", "replay", digest, "99999999999", "text/plain"})
		},
		"too many blobs": func(a *answer) {
			for i := range 161 {
				a.tags = append(a.tags, nostr.Tag{"blob", "artifact", hashing.Bytes(fmt.Append(nil, i)).String(), "1", "text/plain"})
			}
		},
		"too much in all": func(a *answer) {
			for i := range 5 {
				a.tags = append(a.tags, nostr.Tag{"blob", "artifact", hashing.Bytes(fmt.Append(nil, i)).String(), "33554432", "text/plain"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.result(req, change), c.end(req)}
			}, nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || p.Reason != "canceled: enough" || p.Output != nil || p.ResultEvent != nil {
				t.Errorf("purchase %s (%s), %v: believed %s", p.State, p.Reason, err, p.Output)
			}
			if len(c.sent) != 0 {
				t.Errorf("paid %+v", c.sent)
			}
		})
	}
}

// TestReceiptsWithoutPaymentAreIgnored: a 7002 that proves nothing does not
// end a purchase.
func TestReceiptsWithoutPaymentAreIgnored(t *testing.T) {
	_, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		ev := c.event(c.key, 7002, nostr.Tags{{"e", req.ID}, {"p", req.PubKey}}, `{"receipt_id":"rcpt_1"}`)
		priced := c.result(req, func(a *answer) { a.set("amount", "20000") })
		return []nostr.Event{ev, priced, ev, c.end(req)}
	}, nil, buyer.Limits{})
	if !errors.Is(err, buyer.ErrFailed) || p.ReceiptID != "" || p.ReceiptEvent != nil {
		t.Errorf("purchase %s (%s), receipt %q, %v", p.State, p.Reason, p.ReceiptID, err)
	}
}
