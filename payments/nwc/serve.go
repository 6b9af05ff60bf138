package nwc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/relay"
)

// maxAge is the largest difference between a request's time and ours. For that long
// the Book remembers requests, so that none is carried out twice.
const maxAge = 10 * time.Minute

// serve answers one request.
func (s *Service) serve(ctx context.Context, a *app, ev *nostr.Event) {
	if !fresh(ev, time.Now()) {
		return
	}

	scheme := NIP04 // the default if the app names none
	if t := ev.Tags.Find("encryption"); len(t) >= 2 {
		scheme = Scheme(t[1])
	}
	if scheme != NIP44 && scheme != NIP04 {
		s.reply(ctx, a, ev, NIP44, "", nil, &Error{Code: CodeUnsupportedEncryption, Message: "nip44_v2 and nip04 are supported"})
		return
	}
	doc, err := a.channel.open(scheme, ev.Content)
	if err != nil {
		s.cfg.Log.Warn("an app's request cannot be opened", "app", a.Name, "event", ev.ID)
		return
	}
	r, err := parseRequest(doc)
	var result any
	if err == nil {
		result, err = s.handle(ctx, a, ev.ID, r)
	}
	if ctx.Err() != nil || errors.Is(err, errRepeated) {
		return
	}
	s.reply(ctx, a, ev, scheme, r.Method, result, err)
}

// fresh reports whether a request is recent and has not expired.
func fresh(ev *nostr.Event, now time.Time) bool {
	if age := now.Sub(ev.CreatedAt.Time()); age > maxAge || age < -maxAge {
		return false
	}
	if t := ev.Tags.Find("expiration"); len(t) >= 2 {
		until, err := strconv.ParseInt(t[1], 10, 64)
		return err == nil && now.Unix() <= until
	}
	return true
}

// errRepeated marks a repeated request: only the first one is answered.
var errRepeated = errors.New("acted on before")

// handler handles one method.
type handler func(ctx context.Context, a *app, params jsontext.Value) (any, error)

// handle dispatches a request, if the app may use the method.
func (s *Service) handle(ctx context.Context, a *app, eventID string, r request) (any, error) {
	handlers := map[Method]handler{
		PayInvoice: s.payInvoice, MakeInvoice: s.makeInvoice, LookupInvoice: s.lookupInvoice,
		ListTransactions: s.listTransactions, GetBalance: s.getBalance, GetBudget: s.getBudget, GetInfo: s.getInfo,
		MakeHoldInvoice: s.makeHoldInvoice, SettleHoldInvoice: s.settleHoldInvoice, CancelHoldInvoice: s.cancelHoldInvoice,
	}

	h, ok := handlers[r.Method]
	switch {
	case !ok:
		return nil, &Error{Code: CodeNotImplemented, Message: "unknown method"}
	case !a.ExpiresAt.IsZero() && !time.Now().Before(a.ExpiresAt):
		return nil, &Error{Code: CodeUnauthorized, Message: "the connection has expired"}
	case !a.may(r.Method):
		return nil, &Error{Code: CodeRestricted, Message: "this app may not use " + string(r.Method)}
	}

	if r.Method == PayInvoice || r.Method == MakeInvoice {
		// The other methods may be repeated, because they change nothing the second
		// time.
		first, err := s.cfg.Book.Begin(ctx, eventID, 3*maxAge)
		if err != nil {
			return nil, fmt.Errorf("note request: %w", err)
		}
		if !first {
			return nil, errRepeated
		}
	}

	return h(ctx, a, r.Params)
}

// reply encrypts and publishes the answer.
func (s *Service) reply(ctx context.Context, a *app, ev *nostr.Event, scheme Scheme, m Method, result any, err error) {
	out := response{ResultType: m}
	if err != nil {
		s.cfg.Log.Info("an app's request is refused", "app", a.Name, "method", clip.Line(string(m), 40), "err", err)
		out.Error = refusal(err)
	} else if out.Result, err = json.Marshal(result); err != nil {
		s.cfg.Log.Error("word an answer", "method", m, "err", err)
		return
	}

	tags := nostr.Tags{{"p", a.Client}, {"e", ev.ID}}
	if err := s.send(ctx, a, kindResponse, scheme, tags, out); err != nil {
		s.cfg.Log.Warn("an answer is not sent", "app", a.Name, "method", clip.Line(string(m), 40), "err", err)
	}
}

// send encrypts, signs and publishes a message. If no relay accepts it, it is lost,
// and the app looks up the result.
func (s *Service) send(ctx context.Context, a *app, kind int, scheme Scheme, tags nostr.Tags, v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("word message: %w", err)
	}
	content, err := a.channel.seal(scheme, doc)
	if err != nil {
		return err
	}
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Content: content, Tags: tags}
	if err := a.Wallet.sign(&ev); err != nil {
		return err
	}
	results := s.pool.PublishQuorum(ctx, ev, 1)
	if relay.Accepted(results) == 0 {
		return fmt.Errorf("no relay accepted it: %s: %s %w", results[0].URL, clip.Line(results[0].Message, 200), results[0].Err)
	}
	return nil
}
