package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// delivered is a result event, read and checked, with the blobs it refers to.
type delivered struct {
	output []byte
	blobs  []blob.Ref
	key    *receipts.SealKey // of blobs in boxes that no payment opens
}

// checkResult checks everything in a 6xxx event that needs no fetching: who
// made it, for what request, with which hashes.
func (c *Client) checkResult(p view, ev nostr.Event) (delivered, error) {
	bad := func(format string, a ...any) (delivered, error) {
		return delivered{}, purchase.Mismatch("result", fmt.Sprintf(format, a...))
	}
	if ev.PubKey != p.Provider || ev.Kind != c.cfg.Kinds.Request+kinds.ResultOffset || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return bad("it is not the provider's answer to this request")
	}
	if d, err := domain.Of(ev.Tags); err != nil || d != "" || !mayBeUnbound(p.Purchase, ev) {
		if err := domain.Demand(domain.Result, ev.Tags); err != nil {
			return bad("%v", err)
		}
	}

	if t := ev.Tags.Find("request"); t != nil {
		var echoed nostr.Event
		// Clients re-serialise: what counts is the id that the content gives.
		if err := json.Unmarshal([]byte(t[1]), &echoed); err != nil || echoed.GetID() != p.RequestID {
			return bad("the embedded request is another one")
		}
	}

	want := map[string]string{"job_hash": p.JobHash.String()}
	if p.Quote != nil {
		want["quote_hash"] = hashing.Bytes(p.Quote).String()
	}

	for name, value := range want {
		t := ev.Tags.Find(name)
		if t == nil && mayBeUnbound(p.Purchase, ev) {
			continue
		}
		if t == nil || t[1] != value {
			return bad("%s differs", name)
		}
	}

	d := delivered{output: []byte(ev.Content)}
	blobs, err := blob.Refs(ev.Tags)
	if err != nil {
		return bad("%v", err)
	}
	d.blobs = blobs
	if d.key, err = blob.Key(p.RequestID, ev.Tags); err != nil {
		return bad("%v", err)
	}
	return d, nil
}

// checkArtifacts wants every artifact that a result lists among the blobs that
// came with it.
func checkArtifacts(res *schemas.Result, blobs []blob.Ref) error {
	out, ok := res.Value.(*schemas.SandboxRunResult)
	if !ok {
		return nil
	}
	for _, a := range out.Artifacts {
		if !slices.ContainsFunc(blobs, func(b blob.Ref) bool { return b.Digest == a.SHA256 && b.Size == a.SizeBytes }) {
			return purchase.Mismatch("result", fmt.Sprintf("artifact %q did not come with it", text.Clean(a.Path)))
		}
	}
	return nil
}

// checkExpected says why a result that is here need not be paid for: it is no
// result (K-47), or not what the request wanted it to be.
func checkExpected(p view) error {
	s, req, err := p.Terms.Job()
	if err != nil {
		return err
	}
	res, err := s.ParseResult(p.Output)
	if err != nil {
		return err
	}
	out, ok := res.Value.(*schemas.SandboxRunResult)
	if !ok {
		return nil
	}
	if asked, ok := req.Value.(*schemas.SandboxRunRequest); ok {
		if met, why := asked.ExpectationMet(out); !met {
			return purchase.Mismatch("result", why)
		}
	}

	return nil
}

// checkProvable says why a result in the clear could not be proved to be what the
// quote was paid for.
func checkProvable(p view, o offer.Offer) error {
	if err := receipts.CheckPlainEvent(p.ResultEvent, o.Quote, o.Hash, hashing.Bytes(p.Output)); err != nil {
		return purchase.Mismatch("result", "no receipt could name it: "+err.Error())
	}
	return nil
}

// checkOutput checks the result document itself: its schema, that it is the one
// that was signed for, and that it answers the request we signed.
// signed is nil where the event names no hash and may do so.
func checkOutput(p view, signed *hashing.Digest, output []byte) (*schemas.Result, error) {
	bad := func(err error) (*schemas.Result, error) { return nil, purchase.Mismatch("result", err.Error()) }
	s, req, err := p.Terms.Job()
	if err != nil {
		return nil, err
	}
	res, err := s.ParseResult(output)
	if err != nil {
		return bad(err)
	}
	if signed != nil && *signed != res.OutputHash {
		return bad(errors.New("output_hash differs from the output"))
	}
	if err := req.CheckResult(res); err != nil {
		return bad(err)
	}

	return res, nil
}

// checkPolicy says why the manifest that a result brought is none that a receipt for
// the quote could be proved with. One that did not come fails no receipt.
func (f *follower) checkPolicy(ctx context.Context, q receipts.Quote) error {
	manifest, err := f.c.cfg.Store.Content(ctx, q.PolicyBundleID)
	if err != nil {
		return nil
	}
	if _, err := receipts.ParsePolicy(manifest); err != nil {
		return purchase.Mismatch("result", "no receipt could be proved: "+err.Error())
	}
	return nil
}
