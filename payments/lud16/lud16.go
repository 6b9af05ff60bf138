// Package lud16 requests invoices from Lightning addresses (LUD-16, "name@host")
// with the pay request of LUD-06.
//
// Address, host and answers are untrusted. So only https is used, redirects are not
// followed, every answer is bounded, and only the signed invoice itself is relied
// on. The [Config.Client] restricts the reachable hosts: it must refuse addresses
// that are not public.
package lud16

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

var (
	// ErrService: the address's service did not give a usable answer.
	ErrService = errors.New("the service of the Lightning address")
	// ErrAmount: the service does not accept the requested amount.
	ErrAmount = errors.New("the service of the Lightning address does not accept this amount")
	// ErrInvoice: the invoice differs from the request.
	ErrInvoice = errors.New("the invoice of the Lightning address differs from the request")
)

const (
	// maxAnswer allows a pay request with a picture in its metadata, in bytes.
	maxAnswer      = 256 << 10
	defaultTimeout = 15 * time.Second
)

// Config configures a [Resolver].
type Config struct {
	// Client makes the requests. It must reach public addresses only; its redirects
	// are disabled here.
	Client *http.Client
	// Timeout bounds both requests together; 0 means 15 s.
	Timeout time.Duration
}

// Resolver requests invoices from Lightning addresses. It is safe for concurrent
// use.
type Resolver struct{ cfg Config }

// New returns a resolver.
func New(cfg Config) *Resolver {
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Resolver{cfg: cfg}
}

// payRequest is the first answer, invoice the second.
type payRequest struct {
	Tag      string `json:"tag"`
	Callback string `json:"callback"`
	Min      int64  `json:"minSendable"` // msats
	Max      int64  `json:"maxSendable"`
	Metadata string `json:"metadata"`
	refusal
}

type invoice struct {
	PR string `json:"pr"`
	refusal
}

type refusal struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// Invoice requests a BOLT 11 invoice of exactly msats. Its errors wrap
// payments.ErrAddress, ErrService, ErrAmount or ErrInvoice; nothing was paid.
func (r *Resolver) Invoice(ctx context.Context, address string, msats int64) (string, error) {
	if err := payments.CheckMsats(msats); err != nil {
		return "", err
	}
	first, err := firstURL(address)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()

	var ask payRequest
	if err := r.get(ctx, first, &ask, &ask.refusal); err != nil {
		return "", err
	}
	callback, err := ask.callback(msats)
	if err != nil {
		return "", err
	}
	var got invoice
	if err := r.get(ctx, callback, &got, &got.refusal); err != nil {
		return "", err
	}
	if err := checkInvoice(got.PR, ask.Metadata, msats); err != nil {
		return "", err
	}

	return got.PR, nil
}

// firstURL returns the URL of an address's pay request (LUD-16).
func firstURL(address string) (*url.URL, error) {
	name, host, err := payments.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: host, Path: "/.well-known/lnurlp/" + name}, nil
}

// callback returns the URL of the second request, with the amount.
func (p payRequest) callback(msats int64) (*url.URL, error) {
	switch {
	case p.Tag != "payRequest":
		return nil, fmt.Errorf("%w answers with no pay request", ErrService)
	case msats < p.Min || msats > p.Max:
		return nil, fmt.Errorf("%w: %d msats, it takes %d to %d", ErrAmount, msats, p.Min, p.Max)
	}

	u, err := url.Parse(p.Callback)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || !payments.IsPublicName(u.Hostname()) || u.Port() != "" && u.Port() != "443" {
		return nil, fmt.Errorf("%w has no https callback at a named host", ErrService)
	}
	q := u.Query()
	q.Set("amount", strconv.FormatInt(msats, 10))
	u.RawQuery, u.Fragment = q.Encode(), ""
	return u, nil
}

// checkInvoice compares the invoice with the request. In LUD-06 the description
// hash is that of the metadata; an invoice with a description instead is accepted.
func checkInvoice(pr, metadata string, msats int64) error {
	inv, err := bolt11.Decode(pr)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrInvoice, err)
	case inv.AmountMsats != msats:
		return fmt.Errorf("%w: it is for %d msats, not %d", ErrInvoice, inv.AmountMsats, msats)
	case inv.DescriptionHash != nil && *inv.DescriptionHash != hashing.Bytes([]byte(metadata)):
		return fmt.Errorf("%w: its description hash is not that of the address", ErrInvoice)
	}
	return nil
}

// get sends a request and decodes the answer.
func (r *Resolver) get(ctx context.Context, u *url.URL, into any, fault *refusal) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", payments.ErrAddress, err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("%w cannot be asked: %w", ErrService, err)
	}
	defer res.Body.Close()

	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w breaks off: %w", ErrService, err)
	case len(doc) > maxAnswer:
		return fmt.Errorf("%w answers with more than %d bytes", ErrService, maxAnswer)
	}

	err = json.Unmarshal(doc, into)
	switch {
	case err == nil && fault.Status == "ERROR":
		return fmt.Errorf("%w refuses: %s", ErrService, clip.Line(fault.Reason, 200))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%w answers %d", ErrService, res.StatusCode)
	case err != nil:
		return fmt.Errorf("%w does not answer in JSON", ErrService)
	}

	return nil
}
