package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestErrorsByMeaning: upstream's errors are told apart here, too. Its Repair has
// no counterpart, since nothing is repaired; nor has Serialization, since payloads
// are bytes.
func TestErrorsByMeaning(t *testing.T) {
	requirements.Covers(t, "APX-9")
	failing := Handler{Name: "failing", Description: "fails", Tags: []string{"Fail"}, Handle: func(context.Context, Payload, Context) (Response, error) {
		return Response{}, errors.New("no disk")
	}}
	panicking := Handler{Name: "panicking", Description: "panics", Tags: []string{"Panic"}, Handle: func(context.Context, Payload, Context) (Response, error) { panic("boom") }}
	endless := Handler{Name: "endless", Description: "asks itself", Tags: []string{"Again"}, Outputs: []string{"Again"}, Peers: []string{"endless"}, Handle: always(Send("endless", "Again", nil))}
	alone := Handler{Name: "alone", Description: "has no peers", Tags: []string{"Send"}, Outputs: []string{"Ping"}, Handle: always(Send("echo", "Ping", []byte("fine")))}
	w := newWorld(t, Config{
		Handlers: []Handler{echo("echo", "Ping"), failing, panicking, endless, alone}, Schemas: map[string]Validate{"Ping": exactly("fine")}, MaxHops: 3,
	})
	malformed := func(field string) func(error) bool {
		return func(err error) bool {
			var e *MalformedError
			return errors.As(err, &e) && e.Field == field
		}
	}
	for upstream, tt := range map[string]struct {
		change func(*Ingress)
		is     func(error) bool
		reason RejectReason
	}{
		"EnvelopeParse":  {func(in *Ingress) { in.Tag = "Ping Pong" }, malformed("payload_tag"), RejectMalformed},
		"MissingMeta":    {func(in *Ingress) { in.Namespace = "" }, malformed("namespace"), RejectMalformed},
		"Validation":     {func(in *Ingress) { in.Payload = nil }, func(err error) bool { return errors.As(err, new(*ValidationError)) }, RejectValidation},
		"NoRoute":        {func(in *Ingress) { in.Tag = "Nobody" }, isNoRoute, RejectRoute},
		"PeerViolation":  {func(in *Ingress) { in.Tag = "Send" }, isNoRoute, RejectPeer},
		"ChainExhausted": {func(in *Ingress) { in.Tag = "Again" }, func(err error) bool { return errors.Is(err, ErrChainExhausted) }, ""},
		"Handler":        {func(in *Ingress) { in.Tag = "Fail" }, func(err error) bool { return errors.As(err, new(*HandlerError)) }, ""},
		"HandlerPanic":   {func(in *Ingress) { in.Tag = "Panic" }, func(err error) bool { return errors.As(err, new(*HandlerPanicError)) }, RejectHandlerPanicked},
	} {
		t.Run(upstream, func(t *testing.T) {
			before := len(w.log.rejects)
			in := ingress("Ping", "fine")
			tt.change(&in)
			if _, err := w.Submit(t.Context(), in); !tt.is(err) {
				t.Errorf("got %v", err)
			}
			got := RejectReason("")
			if all := w.log.reasons()[before:]; len(all) > 0 {
				got = all[0]
			}
			if got != tt.reason {
				t.Errorf("audit has %q, want %q", got, tt.reason)
			}
		})
	}
	thread, err := w.Open("root.over", "main")
	if err != nil {
		t.Fatal(err)
	}
	thread.Finish(true)
	if _, err := thread.Submit(t.Context(), ingress("Ping", "fine")); !errors.Is(err, ErrThreadClosed) {
		t.Errorf("UnknownThread: %v", err)
	}
	nameless := Config{Handlers: []Handler{{Description: "has no name"}}, Journal: w.log, Audit: w.log}
	if _, err := New(nameless); !errors.As(err, new(*ConfigError)) {
		t.Errorf("Config: %v", err)
	}
}
