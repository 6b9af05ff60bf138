// Package lud16 asks a Lightning address (LUD-16, "name@host") for an invoice,
// by the pay request of LUD-06.
//
// Address, host and answers are a stranger's. So nothing is followed but https,
// no redirect is, every answer is bounded, and the invoice is believed in
// nothing that it does not say itself. Which hosts may be reached at all is the
// business of the [Config.Client]: it must refuse addresses that are not public.
package lud16

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

var (
	// ErrService: the service behind the address answers with nothing usable.
	ErrService = errors.New("the service of the Lightning address")
	// ErrAmount: the service takes other amounts than the one asked for.
	ErrAmount = errors.New("the service of the Lightning address does not accept this amount")
	// ErrInvoice: the invoice is not what was asked for.
	ErrInvoice = errors.New("the invoice of the Lightning address differs from the request")
)

const (
	// maxAnswer holds a pay request with a picture in its metadata, in bytes.
	maxAnswer      = 256 << 10
	defaultTimeout = 15 * time.Second
)

// Config says how to ask.
type Config struct {
	// Client makes the requests. It follows no redirects and reaches public
	// addresses only.
	Client *http.Client
	// Timeout bounds both questions together; 0 means 15 s.
	Timeout time.Duration
}

// Resolver asks Lightning addresses for invoices. It may be used concurrently.
type Resolver struct{ cfg Config }

// New makes a resolver.
func New(cfg Config) *Resolver {
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Resolver{cfg: cfg}
}

// payRequest is the answer to the first question, invoice that to the second.
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

// Invoice asks address for a BOLT 11 invoice of exactly msats. Its errors wrap
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

// firstURL is where LUD-16 puts the pay request of an address.
func firstURL(address string) (*url.URL, error) {
	name, host, err := payments.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: host, Path: "/.well-known/lnurlp/" + name}, nil
}

// callback is the second question, with the amount.
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

// checkInvoice holds the invoice against what was asked. LUD-06 lets its
// description hash be that of the metadata; one that has a text instead is taken.
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

// get reads one answer.
func (r *Resolver) get(ctx context.Context, u *url.URL, into any, said *refusal) error {
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
	case err == nil && said.Status == "ERROR":
		return fmt.Errorf("%w refuses: %s", ErrService, payments.Printable(said.Reason, 200))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%w answers %d", ErrService, res.StatusCode)
	case err != nil:
		return fmt.Errorf("%w does not answer in JSON", ErrService)
	}

	return nil
}
