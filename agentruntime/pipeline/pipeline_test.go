package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestReply(t *testing.T) {
	requirements.Covers(t, "AP-3.1.1", "AP-3.1.2", "AP-3.1.3", "AP-3.1.4", "AP-7.2.2", "AP-7.2.3", "AP-2.1.9")
	var got Payload
	var at Context
	var call Call
	h := echo("echo", "Ping")
	inner := h.Handle
	h.Handle = func(ctx context.Context, p Payload, c Context) (Response, error) {
		got, at, call = p, c, CallFrom(ctx)
		call.Stream("stdout", "working")
		return inner(ctx, p, c)
	}
	w := newWorld(t, Config{Handlers: []Handler{h}, Profiles: []Profile{{Name: "main", Handlers: []string{"echo"}, Retention: Retention{RetainDays, 3}}}})
	in := ingress("Ping", "hello")
	in.RequestID, in.CorrelationID, in.DirectiveID = "r", "c", "d"
	var streamed string
	in.Stream = func(channel, text string) { streamed += channel + ":" + text }
	out, err := w.Submit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	e := out.Reply
	if want := (Header{"urn:test:v1", "Echoed", "echo", "root", "main"}); e.Header() != want || string(e.Payload()) != "hello" {
		t.Errorf("reply %+v %q", e.Header(), e.Payload())
	}
	if got.Tag != "Ping" || string(got.Bytes) != "hello" || at != (Context{"root", "outside", "echo"}) {
		t.Errorf("handler got %+v %+v", got, at)
	}
	if call.RequestID != "r" || call.CorrelationID != "c" || call.DirectiveID != "d" || streamed != "stdout:working" {
		t.Errorf("call %+v, streamed %q", call, streamed)
	}
	hash, now := hashing.Bytes([]byte("hello")), w.cfg.Now()
	want := []Entry{
		{1, now, "root", "main", Outbound, "echo", "Ping", hash, Retention{RetainDays, 3}, ""},
		{2, now, "root", "main", Inbound, "echo", "Echoed", hash, Retention{RetainDays, 3}, ""},
	}
	if !slices.Equal(w.log.entries, want) {
		t.Errorf("journal\n%+v\nwant\n%+v", w.log.entries, want)
	}
	wantReasons(t, w.log)
}

// What a handler is given is data: no function, no channel, nothing to reach
// the pipeline by.
func TestHandlerIsGivenOnlyData(t *testing.T) {
	requirements.Covers(t, "AP-3.1.3", "AP-3.3.1", "AP-3.3.2", "AP-8.3.3")
	if n := reflect.TypeFor[Context]().NumField(); n != 3 {
		t.Errorf("the context has %d fields, not thread, sender and own name", n)
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Context](), reflect.TypeFor[Payload]()} {
		for i := range typ.NumField() {
			switch f := typ.Field(i); f.Type.Kind() {
			case reflect.String:
			case reflect.Slice:
				if f.Type.Elem().Kind() != reflect.Uint8 {
					t.Errorf("%s.%s is a %s", typ, f.Name, f.Type)
				}
			default:
				t.Errorf("%s.%s is a %s", typ, f.Name, f.Type)
			}
		}
	}
}

func TestRouteSeesNoPayload(t *testing.T) {
	requirements.Covers(t, "AP-1.2.1", "AP-1.2.2", "AP-1.1.3", "K-12")
	for i := range reflect.TypeFor[Header]().NumField() {
		if f := reflect.TypeFor[Header]().Field(i); f.Type.Kind() != reflect.String {
			t.Errorf("Header.%s can hold bytes: %s", f.Name, f.Type)
		}
	}
	w := newWorld(t, Config{Handlers: []Handler{echo("a", "A"), echo("b", "B")}})
	for _, payload := range []string{"", "B", `{"payload_tag":"B","profile":"admin","sender":"b"}`} {
		out, err := w.Submit(t.Context(), ingress("A", payload))
		if err != nil || out.Reply.Sender() != "a" {
			t.Errorf("payload %q went to %q, %v", payload, out.Reply.Sender(), err)
		}
	}
}

func TestMalformedNeverEnters(t *testing.T) {
	requirements.Covers(t, "AP-2.1.1", "AP-2.1.2", "AP-1.1.1", "AP-1.1.2", "AP-1.1.5")
	w := newWorld(t, Config{Handlers: []Handler{echo("echo", "Ping")}, MaxPayload: 10})
	for name, change := range map[string]func(*Ingress){
		"no namespace":         func(in *Ingress) { in.Namespace = "" },
		"namespace no URI":     func(in *Ingress) { in.Namespace = "tools" },
		"no tag":               func(in *Ingress) { in.Tag = "" },
		"tag with a space":     func(in *Ingress) { in.Tag = "Ping Pong" },
		"tag wildcard":         func(in *Ingress) { in.Tag = "*" },
		"tag too long":         func(in *Ingress) { in.Tag = strings.Repeat("x", 300) },
		"no sender":            func(in *Ingress) { in.Sender = "" },
		"sender a handler":     func(in *Ingress) { in.Sender = "echo" },
		"sender the pipeline":  func(in *Ingress) { in.Sender = "pipeline" },
		"sender with newlines": func(in *Ingress) { in.Sender = "a\nb" },
		"no thread":            func(in *Ingress) { in.Thread = "" },
		"thread with a hole":   func(in *Ingress) { in.Thread = "root..x" },
		"payload too large":    func(in *Ingress) { in.Payload = make([]byte, 11) },
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.log.rejects)
			in := ingress("Ping", "x")
			change(&in)
			_, err := w.Submit(t.Context(), in)
			var me *MalformedError
			if !errors.As(err, &me) || me.Field == "" {
				t.Errorf("got %v", err)
			}
			if len(w.log.rejects) != before+1 || w.log.rejects[before].Reason != RejectMalformed {
				t.Errorf("audit %+v", w.log.rejects[before:])
			}
		})
	}
	if len(w.log.entries) != 0 {
		t.Errorf("journal has %v", w.log.entries)
	}
}

func TestRequestSchema(t *testing.T) {
	requirements.Covers(t, "AP-2.1.3")
	ran := false
	h := echo("echo", "Ping")
	inner := h.Handle
	h.Handle = func(ctx context.Context, p Payload, c Context) (Response, error) {
		ran = true
		return inner(ctx, p, c)
	}
	w := newWorld(t, Config{Handlers: []Handler{h}, Schemas: map[string]Validate{"Ping": exactly("good")}})
	_, err := w.Submit(t.Context(), ingress("Ping", "bad"))
	var ve *ValidationError
	if !errors.As(err, &ve) || ve.Tag != "Ping" || ran || len(w.log.entries) != 0 {
		t.Errorf("got %v, ran %v, journal %v", err, ran, w.log.entries)
	}
	wantReasons(t, w.log, RejectValidation)
	if _, err := w.Submit(t.Context(), ingress("Ping", "good")); err != nil || !ran {
		t.Errorf("a good payload: %v, ran %v", err, ran)
	}
}

// A rejected message leaves a line without payload in the audit log, and
// nothing anywhere else (K-3).
func TestNoRoute(t *testing.T) {
	requirements.Covers(t, "AP-2.1.4", "AP-2.1.5", "AP-2.1.6", "AP-4.1.3", "AP-4.1.5", "AP-4.3.1", "K-3", "OS-4.3.1.9", "AP-1.1.6", "AP-8.1.1")
	w := newWorld(t, Config{
		Handlers: []Handler{echo("reader", "FileReadRequest"), echo("writer", "FileWriteRequest")},
		Profiles: []Profile{{Name: "researcher", Handlers: []string{"reader"}}, {Name: "main", Handlers: []string{"reader", "writer"}}},
	})
	const canary = "canary-1b2c3d"
	in := ingress("FileWriteRequest", canary)
	in.Profile = "researcher"
	_, forbidden := w.Submit(t.Context(), in)
	in.Tag = "NoSuchTag"
	_, unknown := w.Submit(t.Context(), in)
	if !errors.Is(forbidden, ErrRouteNotFound) || !errors.Is(unknown, ErrRouteNotFound) {
		t.Errorf("got %v and %v", forbidden, unknown)
	}
	if strings.ReplaceAll(forbidden.Error(), "FileWriteRequest", "NoSuchTag") != unknown.Error() {
		t.Errorf("%q tells that there is a handler; %q does not", forbidden, unknown)
	}
	if len(w.log.entries) != 0 {
		t.Errorf("journal has %v", w.log.entries)
	}
	wantReasons(t, w.log, RejectRoute, RejectRoute)
	if all := fmt.Sprintf("%+v", w.log); strings.Contains(all, canary) || strings.Contains(all, hashing.Bytes([]byte(canary)).Hex()) {
		t.Error("the payload, or its hash, was kept")
	}
	in.Profile = "no-such-profile"
	if _, err := w.Submit(t.Context(), in); !errors.Is(err, ErrRouteNotFound) {
		t.Errorf("unknown profile: %v", err)
	}
	in.Profile, in.Tag = "main", "FileWriteRequest"
	if _, err := w.Submit(t.Context(), in); err != nil {
		t.Errorf("with the route: %v", err)
	}
}

// The stages come in one order for every envelope, also for those that
// handlers send.
func TestStageOrder(t *testing.T) {
	requirements.Covers(t, "AP-2.0.1", "AP-2.1.13")
	order := []Stage{StageValidate, StageSecurity, StageJournal, StageDispatch, StageResponse}
	var mu sync.Mutex
	passed := map[string][]Stage{}
	a := Handler{
		Name: "a", Description: "asks b", Tags: []string{"Ask", "Answer"}, Outputs: []string{"Work", "Done"}, Peers: []string{"b"},
		Handle: func(_ context.Context, p Payload, _ Context) (Response, error) {
			if p.Tag == "Ask" {
				return Send("b", "Work", p.Bytes), nil
			}
			return Reply("Done", p.Bytes), nil
		},
	}
	b := Handler{Name: "b", Description: "answers", Tags: []string{"Work"}, Outputs: []string{"Answer"}, Handle: always(Reply("Answer", []byte("42")))}
	w := newWorld(t, Config{Handlers: []Handler{a, b}, Trace: func(s Stage, h Header) {
		mu.Lock()
		defer mu.Unlock()
		passed[h.Tag] = append(passed[h.Tag], s)
	}})
	if _, err := w.Submit(t.Context(), ingress("Ask", "?")); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"Ask", "Work", "Answer"} {
		if !slices.Equal(passed[tag], order) {
			t.Errorf("%s passed %v", tag, passed[tag])
		}
	}
	if !slices.Equal(passed["Done"], []Stage{StageValidate, StageJournal}) {
		t.Errorf("the reply passed %v", passed["Done"])
	}
	var lines []string
	for _, e := range w.log.entries {
		lines = append(lines, fmt.Sprint(e.Direction, " ", e.Handler, " ", e.PayloadTag))
	}
	want := "Outbound a Ask,Inbound a Work,Outbound b Work,Inbound b Answer,Outbound a Answer,Inbound a Done"
	if got := strings.Join(lines, ","); got != want {
		t.Errorf("journal is %s", got)
	}
}

func TestSilence(t *testing.T) {
	requirements.Covers(t, "AP-3.1.7", "AP-3.1.8", "APX-4")
	w := newWorld(t, Config{Handlers: []Handler{{Name: "sink", Description: "is silent", Tags: []string{"Drop"}, Handle: always(Silence())}}})
	out, err := w.Submit(t.Context(), ingress("Drop", "x"))
	if err != nil || out.Reply.Tag() != TagAck || out.Reply.Sender() != "pipeline" || out.Reply.Namespace() != namespace {
		t.Fatalf("%+v, %v", out.Reply.Header(), err)
	}
	if got := string(out.Reply.Payload()); got != `{"result":"ack","success":true}` {
		t.Errorf("payload %s", got)
	}
}

// A handler that wants to know that its peer was silent lists the tag.
func TestSilenceAcknowledgesAHandler(t *testing.T) {
	requirements.Covers(t, "AP-3.1.8")
	asker := Handler{
		Name: "asker", Description: "asks", Tags: []string{"Ask", TagAck}, Outputs: []string{"Work", "Done"}, Peers: []string{"sink"},
		Handle: func(_ context.Context, p Payload, c Context) (Response, error) {
			if p.Tag == TagAck {
				return Reply("Done", []byte(c.Sender)), nil
			}
			return Send("sink", "Work", p.Bytes), nil
		},
	}
	sink := Handler{Name: "sink", Description: "is silent", Tags: []string{"Work"}, Handle: always(Silence())}
	w := newWorld(t, Config{Handlers: []Handler{asker, sink}})
	out, err := w.Submit(t.Context(), ingress("Ask", "x"))
	if err != nil || out.Reply.Tag() != "Done" || string(out.Reply.Payload()) != "pipeline" {
		t.Errorf("%+v, %v", out.Reply.Header(), err)
	}
	asker.Tags = []string{"Ask"}
	w = newWorld(t, Config{Handlers: []Handler{asker, sink}})
	out, err = w.Submit(t.Context(), ingress("Ask", "x"))
	if err != nil || out.Reply.Tag() != TagAck {
		t.Errorf("without the tag: %+v, %v", out.Reply.Header(), err)
	}
	wantReasons(t, w.log)
}

func TestErrorResponse(t *testing.T) {
	requirements.Covers(t, "AP-3.1.9")
	f := Failure{Code: "tool.unavailable", Message: "gone", Retryable: true, Details: json.RawMessage(`{"a":1}`)}
	w := newWorld(t, Config{Handlers: []Handler{{Name: "h", Description: "fails", Tags: []string{"Do"}, Handle: always(Fail(f))}}})
	out, err := w.Submit(t.Context(), ingress("Do", "x"))
	var he *HandlerError
	if !errors.As(err, &he) || he.Handler != "h" || !reflect.DeepEqual(he.Failure, f) {
		t.Fatalf("got %v", err)
	}
	var got Failure
	if err := json.Unmarshal(out.Reply.Payload(), &got); err != nil || !reflect.DeepEqual(got, f) || out.Reply.Tag() != TagError || out.Reply.Sender() != "h" {
		t.Errorf("envelope %+v %s", out.Reply.Header(), out.Reply.Payload())
	}
}

func TestGoErrorIsAnErrorResponse(t *testing.T) {
	cause := errors.New("disk full")
	w := newWorld(t, Config{Handlers: []Handler{{Name: "h", Description: "fails", Tags: []string{"Do"}, Handle: func(context.Context, Payload, Context) (Response, error) {
		return Response{}, fmt.Errorf("write: %w", cause)
	}}}})
	out, err := w.Submit(t.Context(), ingress("Do", "x"))
	var he *HandlerError
	if !errors.As(err, &he) || !errors.Is(err, cause) || he.Failure.Code != "handler.failed" || out.Reply.Tag() != TagError {
		t.Errorf("got %v, %+v", err, out.Reply.Header())
	}
}

// The error of a peer goes to a handler that takes errors, else further up.
func TestErrorTravelsUp(t *testing.T) {
	middle := Handler{
		Name: "middle", Description: "asks low", Tags: []string{"Ask", TagError}, Outputs: []string{"Work", "Done"}, Peers: []string{"low"},
		Handle: func(_ context.Context, p Payload, _ Context) (Response, error) {
			if p.Tag == TagError {
				return Reply("Done", []byte("instead")), nil
			}
			return Send("low", "Work", nil), nil
		},
	}
	low := Handler{Name: "low", Description: "fails", Tags: []string{"Work"}, Handle: always(Fail(Failure{Code: "low.failed"}))}
	w := newWorld(t, Config{Handlers: []Handler{middle, low}})
	out, err := w.Submit(t.Context(), ingress("Ask", ""))
	if err != nil || string(out.Reply.Payload()) != "instead" {
		t.Errorf("handled: %+v, %v", out.Reply.Header(), err)
	}
	middle.Tags = []string{"Ask"}
	w = newWorld(t, Config{Handlers: []Handler{middle, low}})
	_, err = w.Submit(t.Context(), ingress("Ask", ""))
	var he *HandlerError
	if !errors.As(err, &he) || he.Handler != "low" {
		t.Errorf("not handled: %v", err)
	}
}

func TestBroadcast(t *testing.T) {
	requirements.Covers(t, "AP-3.1.6", "K-5")
	var got []string
	part := func(name, tag string) Handler {
		return Handler{Name: name, Description: "a part", Tags: []string{tag}, Outputs: []string{"Part"}, Handle: always(Reply("Part", []byte(name)))}
	}
	all := Handler{
		Name: "all-of-it", Description: "asks two", Tags: []string{"Ask", "Part"}, Outputs: []string{"One", "Two", "Done"}, Peers: []string{"one", "two"},
		Handle: func(_ context.Context, p Payload, c Context) (Response, error) {
			if p.Tag == "Ask" {
				return Broadcast(Message{"one", "One", nil}, Message{"two", "Two", nil}), nil
			}
			got = append(got, c.Sender+"="+string(p.Bytes))
			if len(got) < 2 {
				return Silence(), nil
			}
			return Reply("Done", []byte(strings.Join(got, " "))), nil
		},
	}
	w := newWorld(t, Config{Handlers: []Handler{all, part("one", "One"), part("two", "Two")}})
	out, err := w.Submit(t.Context(), ingress("Ask", ""))
	if err != nil || string(out.Reply.Payload()) != "one=one two=two" || out.Hops != 5 {
		t.Errorf("%q after %d hops, %v", out.Reply.Payload(), out.Hops, err)
	}
}

func TestDirective(t *testing.T) {
	requirements.Covers(t, "K-10")
	h := echo("spender", "Spend")
	h.RequiresDirective = true
	live := map[string]bool{"open": true, "ended": false}
	w := newWorld(t, Config{Handlers: []Handler{h}, DirectiveLive: func(_ context.Context, id string) (bool, error) {
		if id == "broken" {
			return true, errors.New("no database")
		}
		return live[id], nil
	}})
	for id, want := range map[string]error{"": ErrNoDirective, "none": ErrNoDirective, "ended": ErrNoDirective, "broken": ErrNoDirective, "open": nil} {
		in := ingress("Spend", "x")
		in.DirectiveID = id
		if _, err := w.Submit(t.Context(), in); !errors.Is(err, want) {
			t.Errorf("directive %q: %v", id, err)
		}
	}
	if len(w.log.entries) != 2 || len(w.log.rejects) != 4 {
		t.Errorf("journal %d, audit %v", len(w.log.entries), w.log.reasons())
	}
	w = newWorld(t, Config{Handlers: []Handler{h}})
	in := ingress("Spend", "x")
	in.DirectiveID = "open"
	if _, err := w.Submit(t.Context(), in); !errors.Is(err, ErrNoDirective) {
		t.Errorf("nobody knows directives: %v", err)
	}
}

// Without its journal entry nothing is dispatched.
func TestJournalFailureStopsTheMessage(t *testing.T) {
	requirements.Covers(t, "AP-7.0.2")
	ran := false
	h := echo("echo", "Ping")
	h.Handle = func(context.Context, Payload, Context) (Response, error) {
		ran = true
		return Silence(), nil
	}
	w := newWorld(t, Config{Handlers: []Handler{h}})
	w.log.fail = errors.New("disk full")
	_, err := w.Submit(t.Context(), ingress("Ping", "x"))
	if !errors.Is(err, ErrJournal) || !errors.Is(err, w.log.fail) || ran {
		t.Errorf("got %v, ran %v", err, ran)
	}
}

func TestCallerGivesUp(t *testing.T) {
	w := newWorld(t, Config{Handlers: []Handler{echo("echo", "Ping")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Submit(ctx, ingress("Ping", "x")); !errors.Is(err, context.Canceled) || len(w.log.entries) != 0 {
		t.Errorf("got %v, journal %v", err, w.log.entries)
	}
}

func TestSubmitFromManyGoroutines(t *testing.T) {
	w := newWorld(t, Config{Handlers: []Handler{echo("echo", "Ping")}})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			in := ingress("Ping", fmt.Sprint(i))
			in.Thread = ThreadID(fmt.Sprint("root.", i))
			out, err := w.Submit(t.Context(), in)
			if err != nil || string(out.Reply.Payload()) != fmt.Sprint(i) || out.Reply.Thread() != in.Thread {
				t.Errorf("%d: %q %v", i, out.Reply.Payload(), err)
			}
		})
	}
	wg.Wait()
	if len(w.threads) != 0 || len(w.log.entries) != 64 {
		t.Errorf("%d threads, %d entries are left", len(w.threads), len(w.log.entries))
	}
}
