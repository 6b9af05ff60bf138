// Package openjob has a job that its own goroutine works on: how it stands, what its
// documents say, and how others reach it. Steps of a job say with an [End] how it ends.
package openjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Job is one job with its documents, which are parsed once. Its goroutine alone reads
// and writes the embedded job; all else stays as it was made.
type Job struct {
	job.Job      // as the store has it
	current bool // nobody but the job's goroutine can have changed it in the store

	To     publish.Addressee // its buyer, and how events for the buyer are encrypted
	Signed nostr.Event       // the request as the buyer signed it
	Asked  nostr.Event       // the same with its encrypted tags among the others
	Terms  receipts.RequestTerms
	Typed  *schemas.Request

	Tree string // a file with the packed tree of the request, once it is here

	result, fee receipts.Quote

	Wake   chan struct{} // cap 1: look again
	Cancel chan struct{} // closed when the buyer cancels
}

// New is a job that was just admitted, with its typed request and the request as it is
// in the clear.
func New(j job.Job, asked nostr.Event, typed *schemas.Request) (*Job, error) {
	o := empty(j)
	o.Asked, o.Typed = asked, typed
	return o, o.parse()
}

// Parse is a job that a former life admitted. With an error there is a job all the same,
// of which the documents that cannot be read are missing.
func Parse(ctx context.Context, pub *publish.Publisher, j job.Job) (*Job, error) {
	o := empty(j)

	var untyped, hidden error
	if schema, ok := schemas.Lookup(j.SchemaID); !ok {
		untyped = fmt.Errorf("stored job: unknown job type %q", j.SchemaID)
	} else if o.Typed, untyped = schema.ParseRequest(j.Input); untyped != nil {
		untyped = fmt.Errorf("stored job: %w", untyped)
	}
	o.Asked, hidden = pub.Request(ctx, j)
	return o, errors.Join(untyped, hidden, o.parse())
}

func empty(j job.Job) *Job {
	return &Job{Job: j, current: true, To: publish.BuyerOf(j), Wake: make(chan struct{}, 1), Cancel: make(chan struct{})}
}

// parse reads what the embedded job has as bytes, each document by itself.
func (o *Job) parse() error {
	named := func(what string, err error) error {
		if err != nil {
			return fmt.Errorf("stored %s: %w", what, err)
		}
		return nil
	}

	signed := json.Unmarshal(o.Request, &o.Signed)
	var terms, result, fee error
	o.Terms, terms = receipts.TermsOf(o.Asked.Tags)
	o.result, result = receipts.ParseQuote(o.Quote)
	if o.Engagement != nil {
		o.fee, fee = receipts.ParseQuote(o.Engagement.Quote)
	}
	return errors.Join(named("request", signed), named("terms", terms), named("quote", result), named("quote of the engagement fee", fee))
}

// CanSettle reports whether all could be read that the end of a delivery needs: both
// forms of the request, and the quotes.
func (o *Job) CanSettle() bool {
	return o.Typed != nil && o.Signed.ID != "" && o.result.Version != 0 && (o.Engagement == nil || o.fee.Version != 0)
}

// QuoteOf is the quote of one of the job's charges.
func (o *Job) QuoteOf(c *job.Charge) receipts.Quote {
	if c.Purpose == receipts.PurposeEngagement {
		return o.fee
	}
	return o.result
}

// IsSealed reports whether the quote promises the result in boxes that its payment
// opens.
func (o *Job) IsSealed() bool { return o.result.Delivery == receipts.DeliverySealed }

// RunLimit is how long the request lets a run take.
func (o *Job) RunLimit() time.Duration { return receipts.RunLimit(o.Typed) }

// PaysFirst reports whether the result is paid before the job runs.
func (o *Job) PaysFirst() bool { return o.PaidFirst(&o.Charge) }

// Manifest is what the request says of its tree, nil if it names none.
func (o *Job) Manifest() *tree.Manifest { return ManifestOf(o.Typed) }

// ManifestOf is what a request says of its tree, nil if it names none.
func ManifestOf(typed *schemas.Request) *tree.Manifest {
	if typed == nil {
		return nil
	}
	run, ok := typed.Value.(*schemas.SandboxRunRequest)
	if !ok {
		return nil
	}
	return run.Repo.Tree
}

// ThreadName is the job's place in the tree of threads.
func (o *Job) ThreadName() string { return "root.job[" + o.RequestID + "]" }

// Directive is the intent to run the job, as it was approved.
func (o *Job) Directive(by string) job.Directive {
	return job.Directive{ID: "dir_" + o.QuoteHash.Hex()[:32], Key: o.RequestID + "/" + string(receipts.PurposeResult), ApprovedBy: by}
}

// Keep says that the embedded job is as a step has just committed it. Of a free job the
// store need not be asked then, and each look at it costs about as much as a signature.
// Acceptances and payments of the others come from elsewhere.
func (o *Job) Keep() { o.current = o.Mode == receipts.ModeFree }

// Refresh reads the job again, unless its last step said how it stands.
func (o *Job) Refresh(ctx context.Context, read func(ctx context.Context, requestID string) (job.Job, error)) error {
	if o.current {
		o.current = false
		return nil
	}
	j, err := read(ctx, o.RequestID)
	if err == nil {
		o.Job = j
	}
	return err
}

// Made is what a run gave: a result, and the bytes that it refers to.
type Made struct {
	Result    job.Result
	Replay    []byte // REPLAY.jsonl
	Artifacts [][]byte
}

// SchemaParam is the schema that a tag of a request names, "" if it names none.
func SchemaParam(t nostr.Tag) string {
	if len(t) >= 3 && t[0] == "param" && (t[1] == "schema" || t[1] == "schema_id" || t[1] == "job_type") {
		return t[2]
	}
	return ""
}

// NamesSchema reports whether a request names a schema; one of an ordinary NIP-90 client
// names none.
func NamesSchema(asked nostr.Event) bool {
	return slices.ContainsFunc(asked.Tags, func(t nostr.Tag) bool { return SchemaParam(t) != "" })
}
