package lnd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
)

// ErrWalletLocked is the payments.ErrWalletUnavailable of a node that waits for its
// password.
var ErrWalletLocked = fmt.Errorf("lnd's wallet is locked: %w", payments.ErrWalletUnavailable)

// Error is a failed call of lnd. errors.Is matches it with Kind, and through it
// with the errors of package payments.
type Error struct {
	RPC  string // the gRPC method, which is also the name of the required permission
	Kind error  // the kind of failure; nil if lnd's message is unknown
	Hint string // advice for the operator; may be empty
	Err  error  // error of lnd or gRPC; may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.RPC)
	if e.Kind != nil {
		b.WriteString(": " + e.Kind.Error())
	}
	if e.Err != nil {
		b.WriteString(": " + status.Convert(e.Err).Message())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// lnd answers most failures with code Unknown, so they must be told apart by their
// messages. The first match counts.
var answers = [...]struct {
	words string
	kind  error
	hint  string
}{
	{"wallet locked", ErrWalletLocked, "unlock it with lncli unlock"},
	{"wallet not created", payments.ErrWalletUnavailable, "create it with lncli create"},
	{"waiting to start", payments.ErrWalletUnavailable, "lnd is starting"},
	{"in the process of starting", payments.ErrWalletUnavailable, "lnd is starting"},
	{"shutting down", payments.ErrWalletUnavailable, "lnd is stopping"},
	{"permission denied", payments.ErrUnauthorized, ""}, // the hint names the RPC
	{"verification failed", payments.ErrUnauthorized, "the macaroon belongs to another node, or was revoked"},
	{"cannot get macaroon", payments.ErrUnauthorized, "the macaroon belongs to another node, or was revoked"},
	{"root key with id", payments.ErrUnauthorized, "the macaroon belongs to another node, or was revoked"},
	{"macaroon", payments.ErrUnauthorized, "lnd cannot read the macaroon"},
	{"unable to locate invoice", payments.ErrNotFound, ""},
	{"there are no existing invoices", payments.ErrNotFound, ""},
	{"payment isn't initiated", payments.ErrNotFound, ""},
	{"invoice already settled", payments.ErrInvoiceSettled, ""},
	{"invoice already canceled", payments.ErrInvoiceCanceled, ""},
	{"invoice still open", payments.ErrNotHeld, ""},
	{"invoice expired", payments.ErrExpired, ""},
	{"self-payments not allowed", payments.ErrSelfPayment, ""},
	{"insufficient funds", payments.ErrInsufficientFunds, "the wallet has too few confirmed coins that are free"},
	{"not for current active network", payments.ErrWrongNetwork, ""},
}

// fail converts a gRPC error to one with advice. ctx is the caller's, without our
// own time limit: if the caller has ended the call, the wallet is not at fault.
func (w *Wallet) fail(ctx context.Context, rpc string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", rpc, context.Cause(ctx))
	}
	e := &Error{RPC: rpc, Err: err}
	if errors.Is(err, io.EOF) {
		e.Kind = payments.ErrWalletUnavailable
		return e
	}

	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.Unavailable:
		e.Kind, e.Hint = payments.ErrWalletUnavailable, w.connectionHint(message)
	case codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		e.Kind = payments.ErrWalletUnavailable
	case codes.NotFound:
		e.Kind = payments.ErrNotFound
	case codes.AlreadyExists:
		e.Kind = payments.ErrAlreadyPaid
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Kind = payments.ErrUnauthorized
	case codes.Unimplemented:
		e.Kind, e.Hint = payments.ErrUnsupported, "lnd is too old, or was built without this service"
	default:
		for _, answer := range answers {
			if strings.Contains(message, answer.words) {
				e.Kind, e.Hint = answer.kind, answer.hint
				break
			}
		}
	}

	if errors.Is(e.Kind, payments.ErrUnauthorized) && e.Hint == "" {
		e.Hint = "the macaroon lacks a permission: bake one with uri:" + rpc
	}
	return e
}

func (w *Wallet) connectionHint(message string) string {
	if strings.Contains(message, "x509") || strings.Contains(message, "tls:") {
		return fmt.Sprintf("%s is not the certificate of the lnd at %s", w.cfg.TLSCertFile, w.cfg.Address)
	}
	return fmt.Sprintf("is lnd running at %s?", w.cfg.Address)
}

// isRefusal reports whether lnd itself refused the call, so that it had no effect.
// Other errors leave that open.
func isRefusal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Err != nil && !errors.Is(e.Err, io.EOF) &&
		!errors.Is(e.Kind, payments.ErrWalletUnavailable)
}

// isAnswer reports whether lnd examined the call and refused it, so that a lookup
// may show why.
func isAnswer(err error) bool {
	return isRefusal(err) && !errors.Is(err, payments.ErrUnauthorized) && !errors.Is(err, payments.ErrUnsupported)
}
