// Package result takes what a provider delivers: it checks a result against the request
// and the quote, fetches the files that it refers to, and opens those that came in boxes.
package result

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Contents has the files that came with results.
type Contents interface {
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
}

// Store keeps what providers delivered, as evidence. Every method that changes anything
// is one durable transaction.
type Store interface {
	Contents
	// SetResult keeps the verified result event, its canonical output and the
	// contents it refers to; the first stays. early says that money moved first.
	SetResult(ctx context.Context, requestID string, event, output []byte, contents [][]byte, early bool) error
	// SetSealed keeps a result event whose result is in boxes, and the boxes;
	// the first stays.
	SetSealed(ctx context.Context, requestID string, event []byte, contents [][]byte) error
}

// Blobs gets a blob from the first URL that has the right bytes. Its error is
// [ErrUnreachable] where asking again is of no use.
type Blobs interface {
	Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error)
}

// ErrUnreachable is said of a blob that is at no address which may be asked.
var ErrUnreachable = errors.New("it is at no address that may be asked")

// Desk takes the results of one purchase.
type Desk struct {
	Blobs Blobs
	Store Store
	Kind  int // of result events
	// Patience is how long missing blobs are asked for, in all.
	Patience time.Duration

	waited time.Duration
}

// Delivery is a result that was checked.
type Delivery struct {
	Output     []byte
	OutputHash hashing.Digest
	Contents   [][]byte // the files that it refers to
	Text       string   // what came, for people
}

// Take checks a result event and what it refers to. quote is the hash of the quote that
// it must name beside the accepted one; nil if there is none. The error says why the
// result is not taken.
func (d *Desk) Take(ctx context.Context, p purchase.View, ev nostr.Event, quote *hashing.Digest) (Delivery, error) {
	of := profile.Of(p.Purchase)
	event, err := d.check(p, of, ev)
	if err != nil {
		return Delivery{}, err
	}
	if t := ev.Tags.Find("quote_hash"); quote != nil && (t == nil || t[1] != quote.String()) {
		return Delivery{}, purchase.Mismatch("result", "quote_hash differs")
	}

	contents, output, err := d.fetch(ctx, event)
	if err != nil {
		return Delivery{}, err
	}
	res, err := checkOutput(p, profile.SignedHash(of, p.Purchase, ev), output)
	if err == nil {
		err = checkArtifacts(res, event.refs)
	}

	switch {
	case err == nil:
		return Delivery{res.Canonical, res.OutputHash, contents, Size(res.Canonical, len(event.refs))}, nil
	case !of.AnyOutput(p.Purchase):
		return Delivery{}, err
	case len(output) == 0:
		return Delivery{}, purchase.Mismatch("result", "it is empty")
	}

	what := ", as text"
	if p.SchemaID != string(schemas.TextGeneration) {
		what = ", which are no " + p.SchemaID + " result"
	}
	return Delivery{output, hashing.Bytes(output), nil, fmt.Sprintf("%d bytes%s", len(output), what)}, nil
}

// Size tells people how much came.
func Size(output []byte, blobs int) string {
	return fmt.Sprintf("%d bytes, %d blobs", len(output), blobs)
}

// Keep stores a result that was checked; early says that money moved before it came.
func (d *Desk) Keep(ctx context.Context, requestID string, event []byte, r Delivery, early bool) error {
	if err := d.Store.SetResult(ctx, requestID, event, r.Output, append(r.Contents, r.Output), early); err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	return nil
}

// delivered is a result event, read and checked, with the files that it refers to.
type delivered struct {
	output []byte
	refs   []blob.Ref
	key    *receipts.SealKey // of files in boxes that no payment opens
}

// check checks everything in a 6xxx event that needs no fetching: who
// made it, for what request, with which hashes.
func (d *Desk) check(p purchase.View, of profile.Profile, ev nostr.Event) (delivered, error) {
	bad := func(format string, a ...any) (delivered, error) {
		return delivered{}, purchase.Mismatch("result", fmt.Sprintf(format, a...))
	}
	if ev.PubKey != p.Provider || ev.Kind != d.Kind || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return bad("it is not the provider's answer to this request")
	}
	unbound := of.Unbound(p.Purchase, ev)
	if d, err := domain.Of(ev.Tags); err != nil || d != "" || !unbound {
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
		if t == nil && unbound {
			continue
		}
		if t == nil || t[1] != value {
			return bad("%s differs", name)
		}
	}

	event := delivered{output: []byte(ev.Content)}
	var err error
	if event.refs, err = blob.Refs(ev.Tags); err != nil {
		return bad("%v", err)
	}
	if event.key, err = blob.Key(p.RequestID, ev.Tags); err != nil {
		return bad("%v", err)
	}
	return event, nil
}

// checkOutput checks the result document itself: its schema, that it is the one
// that was signed for, and that it answers the request we signed.
// signed is nil where the event names no hash and may do so.
func checkOutput(p purchase.View, signed *hashing.Digest, output []byte) (*schemas.Result, error) {
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

// IsHere reports whether the result that a quote asks to be paid for has come, in boxes
// where the quote says so.
func IsHere(p purchase.Purchase, q receipts.Quote) bool {
	if q.Delivery == receipts.DeliverySealed {
		return p.SealedEvent != nil
	}
	return p.Output != nil
}

// CheckDelivered holds a result that is here against the quote, with its hash, that asks
// to be paid for it.
func (d *Desk) CheckDelivered(ctx context.Context, p purchase.View, q receipts.Quote, hash hashing.Digest) error {
	if q.Delivery == receipts.DeliverySealed {
		if err := receipts.CheckSealedEvent(p.SealedEvent, p.Provider, p.RequestID, hash); err != nil {
			return err
		}
		return d.checkPolicy(ctx, q)
	}

	if err := checkExpected(p); err != nil {
		return err
	}
	if err := receipts.CheckPlainEvent(p.ResultEvent, q, hash, hashing.Bytes(p.Output)); err != nil {
		return purchase.Mismatch("result", "no receipt could name it: "+err.Error())
	}
	return d.checkPolicy(ctx, q)
}

// checkExpected says why a result that is here need not be paid for: it is no
// result (K-47), or not what the request wanted it to be.
func checkExpected(p purchase.View) error {
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
	if run, ok := req.Value.(*schemas.SandboxRunRequest); ok {
		if met, why := run.ExpectationMet(out); !met {
			return purchase.Mismatch("result", why)
		}
	}
	return nil
}

// checkPolicy says why the manifest that a result brought is none that a receipt for
// the quote could be proved with. One that did not come fails no receipt.
func (d *Desk) checkPolicy(ctx context.Context, q receipts.Quote) error {
	manifest, err := d.Store.Content(ctx, q.PolicyBundleID)
	if err != nil {
		return nil
	}
	if _, err := receipts.ParsePolicy(manifest); err != nil {
		return purchase.Mismatch("result", "no receipt could be proved: "+err.Error())
	}
	return nil
}
