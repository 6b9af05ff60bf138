// Package provider sells jobs: it announces, admits, quotes, gets paid, runs,
// delivers and leaves a receipt. A [Provider] wires the stages of provider/internal
// together and listens to relays for them; the path of one job is in
// provider/internal/flow. docs/protocol/protocol.md has the events it speaks.
package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/trees"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Signer makes events with the provider's key.
type Signer interface {
	PublicKey() string // x-only hex
	Sign(ctx context.Context, ev *nostr.Event) error
}

// Wallet is the wallet that buyers pay into.
type Wallet = payments.Payee

// Market is the relays, and the blob servers beside them.
type Market interface {
	// Listen hands every verified event that matches to handle, stored ones
	// first, across reconnects, until ctx ends. Redelivery is possible. ready
	// is called whenever a relay has begun to serve the subscription.
	Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error
	// Query returns stored events, from all relays, newest first; an error if
	// no relay answered to the end.
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	// Publish offers the event to all relays and says what each answered.
	Publish(ctx context.Context, ev nostr.Event) []Ack
	// Forward offers the event to a relay that a buyer named, once.
	Forward(ctx context.Context, url string, ev nostr.Event) Ack
	// Relays are the relays an event is published to.
	Relays() []string
	// BlobURLs says where a blob of this digest (hex) will be found.
	BlobURLs(digestHex string) []string
	// Upload puts bytes on the blob servers; at least one has it when it returns nil.
	// ErrBlobRefused if all refuse these bytes, and would at any other time.
	Upload(ctx context.Context, data []byte, mime string) error
}

// Errors of a [Market] and of a [Signer].
var (
	// ErrBlobRefused is wrapped by the error of an upload that no blob server takes for
	// what it is, such as its size.
	ErrBlobRefused = publish.ErrBlobRefused
	// ErrSignerRefuses is wrapped by a Signer that will not sign an event, asked as
	// often as you like; any other error passes.
	ErrSignerRefuses = publish.ErrSignerRefuses
)

// Cipher encrypts what is told to one key alone, with the provider's own.
type Cipher interface {
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, hidden string) (string, error)
	NIP04Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error)
}

// Lifecycle says which events of NIP-SA's proposal are published. The zero
// value publishes none.
type Lifecycle struct {
	Kinds lifecycle.Kinds
	// Encrypt hides all trajectories from everybody but the buyer, who then gets
	// them with params and payloads. Those of results that were sealed or
	// encrypted are hidden in any case.
	Encrypt bool
}

// Config is all a provider needs.
type Config struct {
	Signer Signer
	// SignLater is for a signer that can be slow, away or unwilling: no step of
	// a job waits for it; events are signed as they go out.
	SignLater bool
	// Cipher opens encrypted requests; nil: they are refused. It is used within a
	// job's steps, so it needs a key that is here.
	Cipher Cipher
	Store  Store
	Wallet Wallet // nil: only free jobs
	// MakeInvoice makes the invoices of prepay and postpay where the wallet chooses
	// their payment hashes; nil: we choose them. Asked again for the same description
	// hash it gives the invoice that it has made since then, if it can know of it.
	MakeInvoice func(ctx context.Context, in payments.NewInvoice, since time.Time) (payments.Invoice, error)
	Market      Market
	Runner      Runner
	Log         *slog.Logger

	// LeastMsats is the smallest payment that the wallet can take, 0 for any: of
	// one on the chain the dust limit. A job whose price is less is refused.
	LeastMsats int64
	// RootSecret derives preimages; 32 bytes, never logged.
	RootSecret []byte
	Offers     []Offer
	Images     Images
	// Policy is the manifest that jobs run under.
	Policy receipts.Policy
	// Retention is announced and promised in every quote; nil: nothing is.
	Retention *receipts.Retention
	Limits    Limits
	Access    Access
	// Admission says, whenever it is asked, whether new jobs are taken; nil: always.
	Admission func() Admission
	// Pause stops the taking of jobs, so that Admission says so, until the operator
	// takes them again: another node sells with our key. nil: until Serve ends.
	Pause func(why string) error
	// Withdrawn says, whenever it is asked, why jobs of a type cannot be done now,
	// "" if they can; nil: they can. What is withdrawn is not announced and new
	// requests for it are refused. Jobs that are open go on. It must not block.
	Withdrawn func(schemaID string) string
	// Takes says why what does the jobs of a type would refuse this typed request,
	// so that nobody pays for that; nil: it would take it, and with Takes nil all.
	Takes func(schemaID string, input []byte) error
	// DrainBy says when Serve ends at the latest while it drains, whatever is open;
	// nil or the zero time: not before nothing is.
	DrainBy  func() time.Time
	Kinds    Kinds
	Profile  Profile
	Hardware Hardware
	// Lifecycle says which events of NIP-SA's proposal are published; none by default.
	Lifecycle Lifecycle
	// Trees says which files are taken that are too large for a request; nil: none.
	// They need a Cipher: their key is encrypted.
	Trees *Trees
	// Refunds pays failed prepaid jobs back; nil: they become credit.
	Refunds *Refunds
	// Events is told what happens to jobs, those of one job in their order; nil:
	// nobody is. It is called from many goroutines and must not block.
	Events func(JobEvent)
}

// Trees bounds the files of jobs that are too large for their requests.
type Trees struct {
	MaxBytes int64    // of one job's files, packed
	Servers  []string // addresses of blob servers that buyers upload them to
	Dir      string   // where they are kept until their job has ended
	Market   TreeMarket
}

// TreeMarket is the blob servers that buyers upload files to.
type TreeMarket = trees.Market

func (c *Config) validate() error {
	switch {
	case c.Signer == nil, c.Store == nil, c.Market == nil, c.Runner == nil:
		return errors.New("provider: signer, store, market and runner are required")
	case c.SignLater && c.Cipher != nil:
		return errors.New("provider: a key that signs later opens no encrypted request")
	case c.Trees != nil && (c.Cipher == nil || c.Trees.Market == nil || c.Trees.Dir == "" || len(c.Trees.Servers) == 0 || c.Trees.MaxBytes <= 0):
		return errors.New("provider: trees need a cipher, a limit, a folder and blob servers")
	case len(c.RootSecret) < 32:
		return errors.New("provider: the root secret needs 32 bytes")
	case len(c.Offers) == 0:
		return errors.New("provider: nothing is on offer")
	}

	for _, kind := range c.Kinds.Also {
		if kind < kinds.FirstRequest || kind > kinds.LastRequest {
			return fmt.Errorf("provider: kind %d is no request's", kind)
		}
	}

	switch c.Access.Trust {
	case TrustNobody, TrustFollows, TrustFollows2:
	default:
		return fmt.Errorf("provider: access: unknown trust %q", c.Access.Trust)
	}

	if err := c.Lifecycle.Kinds.Check(); err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	if err := c.Limits.Check(); err != nil {
		return err
	}
	if c.Retention != nil {
		if err := c.Retention.Validate(); err != nil {
			return fmt.Errorf("provider: %w", err)
		}
	}
	if c.Refunds != nil && (c.Refunds.Wallet == nil || payments.CheckMsats(c.Refunds.MaxFeeMsats) != nil) {
		return errors.New("provider: refunds need a wallet and a fee limit")
	}

	return c.checkOffers()
}

func (c *Config) checkOffers() error {
	for _, o := range c.Offers {
		if err := c.checkOffer(o); err != nil {
			return fmt.Errorf("offer %s: %w", o.SchemaID, err)
		}
	}
	return nil
}

// priceList is what is sold at first.
func (c *Config) priceList() (*job.PriceList, error) {
	manifest, err := c.Policy.Canonical()
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	return &job.PriceList{Offers: slices.Clone(c.Offers), Policy: manifest, PolicyID: hashing.Bytes(manifest)}, nil
}

func (c *Config) checkOffer(o Offer) error {
	_, ok := schemas.Lookup(o.SchemaID)
	if !ok {
		return errors.New("unknown job type")
	}
	if len(o.Modes) == 0 {
		return errors.New("no payment mode")
	}

	for _, m := range o.Modes {
		switch m {
		case receipts.ModeFree:
		case receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay:
			if c.Wallet == nil {
				return fmt.Errorf("mode %s needs a wallet", m)
			}
			if p := o.Table(); !p.Valid() || p.BaseMsats+p.PerMinuteMsats+p.InputMsats+p.OutputMsats <= 0 {
				return fmt.Errorf("mode %s needs a price", m)
			}
		default:
			return fmt.Errorf("unknown payment mode %q", m)
		}
	}

	return nil
}
