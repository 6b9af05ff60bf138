package playnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet/playurl"
)

// maxRequests bounds the concurrent requests, including waiting ones.
const maxRequests = 512

var errBusy = fmt.Errorf("%w: too many requests at once", payments.ErrWalletUnavailable)

// Server offers a ledger to Clients on this machine.
type Server struct {
	ledger *Ledger
	log    *slog.Logger
	slots  chan struct{} // one for each running request
}

// NewServer returns a server for the ledger, which stays owned by the caller. With
// a nil logger nothing is logged.
func NewServer(ledger *Ledger, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Server{ledger: ledger, log: logger, slots: make(chan struct{}, maxRequests)}
}

// Serve answers requests on ln, which must listen on loopback, until ctx ends; then
// it ends waiting requests, closes ln and returns nil.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if addr, ok := ln.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("%w: play money is served on loopback only, not on %v", payments.ErrBadRequest, ln.Addr()), ln.Close())
	}
	srv := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		// Not shorter than an answer may take, because reaching it ends the
		// request.
		ReadTimeout:    longPoll + 10*time.Second,
		WriteTimeout:   longPoll + 20*time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	select {
	case err := <-served:
		return fmt.Errorf("serve play money: %w", err)
	case <-ctx.Done():
	}

	// Requests end with ctx; the remaining ones are cut off after the grace period.
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()

	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close() // the callers will find out anyway
	}
	<-served
	return nil
}

// method decodes a request of one wallet, carries it out and returns the answer.
type method func(ctx context.Context, w *Wallet, body []byte) (any, error)

// call makes a method of a typed function.
func call[Req, Resp any](fn func(ctx context.Context, w *Wallet, req Req) (Resp, error)) method {
	return func(ctx context.Context, w *Wallet, body []byte) (any, error) {
		var req Req
		if err := decode(body, &req); err != nil {
			return nil, err
		}
		return fn(ctx, w, req)
	}
}

func decode(body []byte, to any) error {
	if err := hashing.Unmarshal(body, to); err != nil {
		return fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	return nil
}

func methods() map[string]method {
	return map[string]method{
		MethodNode: call(func(ctx context.Context, w *Wallet, _ empty) (payments.Node, error) { return w.Node(ctx) }),
		MethodBalance: call(func(ctx context.Context, w *Wallet, _ empty) (payments.Balance, error) {
			return w.Balance(ctx)
		}),
		MethodCreateInvoice: call(createInvoice),
		MethodLookupInvoice: call(func(ctx context.Context, w *Wallet, r hashRequest) (payments.Invoice, error) {
			return w.LookupInvoice(ctx, r.PaymentHash)
		}),
		MethodSettleInvoice: call(func(ctx context.Context, w *Wallet, r settleRequest) (empty, error) {
			return empty{}, w.SettleInvoice(ctx, r.Preimage)
		}),
		MethodCancelInvoice: call(func(ctx context.Context, w *Wallet, r hashRequest) (empty, error) {
			return empty{}, w.CancelInvoice(ctx, r.PaymentHash)
		}),
		MethodWatchInvoices: call(watchInvoices),
		MethodSendPayment: call(func(ctx context.Context, w *Wallet, r payRequest) (empty, error) {
			return empty{}, w.SendPayment(ctx, payments.Pay{BOLT11: r.BOLT11, AmountMsats: r.AmountMsats, FeeLimitMsats: r.FeeLimitMsats})
		}),
		MethodLookupPayment: call(func(ctx context.Context, w *Wallet, r hashRequest) (payments.Payment, error) {
			return w.LookupPayment(ctx, r.PaymentHash)
		}),
		MethodTrackPayment: call(trackPayment),
	}
}

func createInvoice(ctx context.Context, w *Wallet, r createRequest) (payments.Invoice, error) {
	if r.ExpirySeconds < 1 || r.ExpirySeconds > int64(100*365*24*time.Hour/time.Second) {
		return payments.Invoice{}, fmt.Errorf("%w: expiry of %d seconds", payments.ErrBadRequest, r.ExpirySeconds)
	}
	return w.CreateInvoice(ctx, payments.NewInvoice{
		Preimage: r.Preimage, PaymentHash: r.PaymentHash, Hold: r.Hold, AmountMsats: r.AmountMsats,
		DescriptionHash: r.DescriptionHash, Expiry: time.Duration(r.ExpirySeconds) * time.Second,
	})
}

func watchInvoices(ctx context.Context, w *Wallet, r watchRequest) (watchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	hashes, next, err := w.changesAfter(ctx, r.After)
	if errors.Is(err, context.DeadlineExceeded) {
		return watchResponse{Next: r.After}, nil
	}
	return watchResponse{Next: next, Hashes: hashes}, err
}

func trackPayment(ctx context.Context, w *Wallet, r hashRequest) (trackResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	p, err := w.TrackPayment(ctx, r.PaymentHash)
	if errors.Is(err, context.DeadlineExceeded) {
		return trackResponse{}, nil
	}
	return trackResponse{Payment: &p}, err
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for name, m := range methods() {
		mux.HandleFunc("POST "+methodPath+name, s.answer(m, s.authorize))
	}
	open := func(ctx context.Context, _ *Wallet, body []byte) (any, error) {
		var r openRequest
		if err := decode(body, &r); err != nil {
			return nil, err
		}
		_, err := s.ledger.OpenWallet(ctx, r.Name, r.Token)
		return empty{}, err
	}
	mux.HandleFunc("POST "+methodPath+MethodOpenWallet, s.answer(open, func(*http.Request) (*Wallet, error) { return nil, nil }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			mux.ServeHTTP(w, r)
		default:
			writeError(w, errBusy)
		}
	})
}

func (s *Server) authorize(r *http.Request) (*Wallet, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	if !ok {
		return nil, payments.ErrUnauthorized
	}
	return s.ledger.Wallet(r.Context(), token)
}

// answer reads the request, which must come from a program and not from a web page:
// a page cannot send this content type to another origin without permission, and
// with DNS rebinding the Host would not be loopback.
func (s *Server) answer(m method, authorize func(*http.Request) (*Wallet, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != contentType || !playurl.IsLoopback(r.Host) {
			writeError(w, fmt.Errorf("%w: want JSON, sent to a loopback address", payments.ErrBadRequest))
			return
		}
		wallet, err := authorize(r)
		if err != nil {
			writeError(w, err)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			writeError(w, fmt.Errorf("%w: read request: %w", payments.ErrBadRequest, err))
			return
		}
		resp, err := m(r.Context(), wallet, body)
		if err != nil {
			if r.Context().Err() == nil {
				s.log.Debug("play money: refused", "path", r.URL.Path, "error", err)
			}
			writeError(w, err)
			return
		}

		writeJSON(w, http.StatusOK, resp)
	}
}

func writeError(w http.ResponseWriter, err error) {
	resp, status := codeOf(err)
	writeJSON(w, status, resp)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err) // our own types always encode
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a caller that is gone asks again
}
