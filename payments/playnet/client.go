package playnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet/playurl"
)

// The wait between two attempts of a watch or track whose connection broke.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Client is a wallet on a Server, with the methods of a wallet backend. Calls that
// change something may be repeated after any error.
type Client struct {
	url   string
	token string
	http  *http.Client

	// MaySpend is asked before each payment is begun; it is set before the first.
	MaySpend payments.MaySpend
}

// Dial returns the client for the wallet of a token. rawURL is the server's
// address, "http://127.0.0.1:port"; it must be on loopback. Dial sends nothing.
func Dial(rawURL, token string) (*Client, error) {
	u, err := playurl.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	if !walletToken.MatchString(token) {
		return nil, fmt.Errorf("%w: a token is 64 hex digits", payments.ErrBadRequest)
	}

	return &Client{
		url:   "http://" + u.Host + methodPath,
		token: token,
		// No proxy: the token must not leave the machine.
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				ResponseHeaderTimeout: longPoll + 20*time.Second,
				MaxIdleConnsPerHost:   8,
				IdleConnTimeout:       30 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// OpenWallet creates or finds the wallet of the client's token; see
// [Ledger.OpenWallet].
func (c *Client) OpenWallet(ctx context.Context, name string) error {
	return c.call(ctx, MethodOpenWallet, openRequest{Name: name, Token: c.token}, &empty{})
}

// Node describes the wallet's node.
func (c *Client) Node(ctx context.Context) (n payments.Node, err error) {
	err = c.call(ctx, MethodNode, empty{}, &n)
	return n, err
}

// Balance implements [Wallet.Balance].
func (c *Client) Balance(ctx context.Context) (b payments.Balance, err error) {
	err = c.call(ctx, MethodBalance, empty{}, &b)
	return b, err
}

// CreateInvoice implements [Wallet.CreateInvoice].
func (c *Client) CreateInvoice(ctx context.Context, n payments.NewInvoice) (inv payments.Invoice, err error) {
	if _, err := n.Hash(); err != nil {
		return inv, err
	}
	err = c.call(ctx, MethodCreateInvoice, createRequest{
		Preimage: n.Preimage, PaymentHash: n.PaymentHash, Hold: n.Hold, AmountMsats: n.AmountMsats,
		DescriptionHash: n.DescriptionHash, ExpirySeconds: int64(n.Expiry / time.Second),
	}, &inv)
	return inv, err
}

// LookupInvoice implements [Wallet.LookupInvoice].
func (c *Client) LookupInvoice(ctx context.Context, hash payments.Hash) (inv payments.Invoice, err error) {
	err = c.call(ctx, MethodLookupInvoice, hashRequest{hash}, &inv)
	return inv, err
}

// SettleInvoice implements [Wallet.SettleInvoice].
func (c *Client) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	return c.call(ctx, MethodSettleInvoice, settleRequest{preimage}, &empty{})
}

// CancelInvoice implements [Wallet.CancelInvoice].
func (c *Client) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	return c.call(ctx, MethodCancelInvoice, hashRequest{hash}, &empty{})
}

// WatchInvoices calls hint with the hash of each invoice that changes, until ctx
// ends, and returns ctx's error. It reconnects after failures and continues without
// a gap; only ErrUnauthorized ends it.
func (c *Client) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	after, wait := int64(-1), minBackoff
	for {
		var resp watchResponse

		err := c.call(ctx, MethodWatchInvoices, watchRequest{After: after}, &resp)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, payments.ErrUnauthorized):
			return err
		case err != nil:
			if err := backoff.Wait(ctx, &wait, maxBackoff); err != nil {
				return err
			}
			continue
		}

		after, wait = resp.Next, minBackoff
		for _, h := range resp.Hashes {
			hint(h)
		}
	}
}

// SendPayment implements [Wallet.SendPayment]. ErrUnknownOutcome: the answer was
// lost, so the payment may have started; repeat the call or track the payment.
func (c *Client) SendPayment(ctx context.Context, p payments.Pay) error {
	if err := c.MaySpend.Ask(); err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	return c.call(ctx, MethodSendPayment, payRequest{BOLT11: p.BOLT11, AmountMsats: p.AmountMsats, FeeLimitMsats: p.FeeLimitMsats}, &empty{})
}

// LookupPayment implements [Wallet.LookupPayment].
func (c *Client) LookupPayment(ctx context.Context, hash payments.Hash) (p payments.Payment, err error) {
	err = c.call(ctx, MethodLookupPayment, hashRequest{hash}, &p)
	return p, err
}

// TrackPayment waits until the payment has succeeded or failed, or ctx ends. It
// reconnects after failures, which say nothing about the payment.
func (c *Client) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	wait := minBackoff
	for {
		var resp trackResponse
		err := c.call(ctx, MethodTrackPayment, hashRequest{hash}, &resp)
		switch {
		case ctx.Err() != nil:
			return payments.Payment{}, ctx.Err()
		case errors.Is(err, payments.ErrWalletUnavailable):
			if err := backoff.Wait(ctx, &wait, maxBackoff); err != nil {
				return payments.Payment{}, err
			}
			continue
		case err != nil:
			return payments.Payment{}, err
		case resp.Payment != nil:
			return *resp.Payment, nil
		}

		wait = minBackoff
	}
}

// call sends one request. A transport error is ErrWalletUnavailable, unless the
// request may have arrived and started a payment: then it is ErrUnknownOutcome.
func (c *Client) call(ctx context.Context, method string, req, resp any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+method, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", bearer+c.token)
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", trouble(method, err), unreached(r.URL.Host, err))
	}
	defer answer.Body.Close()

	text, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse+1))
	if err == nil && len(text) > maxResponse {
		err = fmt.Errorf("the answer is longer than %d bytes", maxResponse)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: read answer: %w", method, trouble(method, err), err)
	}
	if answer.StatusCode != http.StatusOK {
		var e errorResponse
		if err := hashing.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s: %w: status %d", method, trouble(method, err), answer.StatusCode)
		}
		return fmt.Errorf("%s: %w", method, errorOf(e))
	}

	if err := hashing.Unmarshal(text, resp); err != nil {
		return fmt.Errorf("%s: %w: decode answer: %w", method, trouble(method, err), err)
	}
	return nil
}

// trouble classifies a transport error. If the connection failed, no request was
// sent.
func trouble(method string, err error) error {
	var op *net.OpError
	if method == MethodSendPayment && !(errors.As(err, &op) && op.Op == "dial") {
		return payments.ErrUnknownOutcome
	}
	return payments.ErrWalletUnavailable
}

// unreached says briefly why a server did not answer: the address and the system's
// reason. The cause, such as the end of a context, stays in the chain.
func unreached(host string, err error) error {
	var op *net.OpError
	var call *url.Error
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		err = op.Err
	case errors.As(err, &call):
		err = call.Err
	}

	var system *os.SyscallError
	if errors.As(err, &system) {
		err = system.Err
	}
	return fmt.Errorf("no answer from %s: %w", host, err)
}
