package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// asker sends what it gets on to a peer and replies with what comes back; it
// keeps what it was told.
func asker(name, tag, peer, ask string, answers []string, told *[]string) Handler {
	return Handler{
		Name: name, Description: "asks", Tags: append([]string{tag}, answers...), Outputs: []string{ask, "Done"}, Peers: []string{peer},
		Handle: func(_ context.Context, p Payload, c Context) (Response, error) {
			if p.Tag == tag {
				return Send(peer, ask, p.Bytes), nil
			}
			*told = append(*told, p.Tag+" from "+c.Sender+": "+string(p.Bytes))
			return Reply("Done", []byte(name+" "+string(p.Bytes))), nil
		},
	}
}

// TestAnswersGoToWhoAsked: two handlers of a profile take the same answers; each
// gets its own, though the table routes the tag to the first.
func TestAnswersGoToWhoAsked(t *testing.T) {
	requirements.Covers(t, "AP-3.1.4", "AP-3.1.5")
	var first, second []string
	w := newWorld(t, Config{Handlers: []Handler{
		asker("first", "A", "echo", "Ping", []string{"Echoed"}, &first),
		asker("second", "B", "echo", "Ping", []string{"Echoed"}, &second),
		echo("echo", "Ping"),
	}})
	out, err := w.Submit(t.Context(), Ingress{Namespace: "urn:test", Sender: "out", Tag: "B", Payload: []byte("x"), Thread: "t", Profile: "main"})
	if err != nil || !strings.HasPrefix(string(out.Reply.Payload()), "second ") || len(first) != 0 || len(second) != 1 {
		t.Errorf("%s, %v; told %q and %q", out.Reply.Payload(), err, first, second)
	}
	// A request with that tag still goes to the first alone.
	if table, _ := w.Table("main"); table.routes["Echoed"] != "first" {
		t.Errorf("routes %v", table.Routes())
	}
	// And an answer reaches nobody in a thread that was kept from the tag.
	thread, err := w.Open("u", "main")
	if err != nil {
		t.Fatal(err)
	}
	child, err := thread.Spawn("c", Keep("B", "Ping"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.Submit(t.Context(), Ingress{Namespace: "urn:test", Sender: "out", Tag: "B", Payload: []byte("x")}); !errors.Is(err, ErrRouteNotFound) || len(second) != 1 {
		t.Errorf("%v; told %q", err, second)
	}
}

// TestRefusalIsTold: a handler that takes errors hears that its message went
// nowhere, in the same words whether the handler exists elsewhere or not.
func TestRefusalIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		peer, ask string
		want      string
	}{
		"in no table":    {"hidden", "Secret", `pipeline.error from pipeline: {"code":"route.not_found","message":"route not found","retryable":false}`},
		"nowhere":        {"echo", "Nothing", `pipeline.error from pipeline: {"code":"route.not_found","message":"route not found","retryable":false}`},
		"against schema": {"echo", "Ping", `pipeline.error from pipeline: {"code":"message.invalid","message":"not so","retryable":false}`},
		"panics":         {"bad", "Bad", `pipeline.error from pipeline: {"code":"handler.failed","message":"the handler failed","retryable":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			broken := echo("bad", "Bad")
			broken.Handle = func(context.Context, Payload, Context) (Response, error) { panic("x") }
			w := newWorld(t, Config{
				Handlers: []Handler{asker("a", "A", tt.peer, tt.ask, []string{TagError}, &told), echo("echo", "Ping"), broken, echo("hidden", "Secret")},
				Profiles: []Profile{{Name: "main", Handlers: []string{"a", "echo", "bad"}}},
				Schemas:  map[string]Validate{"Ping": func([]byte) error { return errors.New("not so") }},
			})
			out, err := w.Submit(t.Context(), Ingress{Namespace: "urn:test", Sender: "out", Tag: "A", Payload: []byte("x"), Thread: "t", Profile: "main"})
			if err != nil || out.Reply.Tag() != "Done" || !slices.Equal(told, []string{tt.want}) || len(out.Rejected) != 1 {
				t.Errorf("%s, %v; told %q; rejected %v", out.Reply.Tag(), err, told, out.Rejected)
			}
		})
	}
}
