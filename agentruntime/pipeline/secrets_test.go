package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// secretPassword marks the member "password" of an object of strings.
func secretPassword(payload []byte, replace func([]byte) ([]byte, error)) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(payload, &doc); err != nil {
		return nil, err
	}
	if doc["password"] == nil {
		return payload, nil
	}
	v, err := replace(doc["password"])
	if err != nil {
		return nil, err
	}
	doc["password"] = v
	return json.Marshal(doc)
}

const canary = "hunter2-canary"

// secretWorld has a tool that takes a password, one that gives one, and an
// asker between them and the outside.
func secretWorld(t *testing.T, login HandleFunc) (world, *[]string) {
	t.Helper()
	var seen []string
	note := func(p Payload) { seen = append(seen, p.Tag+" "+string(p.Bytes)) }
	w := newWorld(t, Config{
		Secrets: map[string]Marked{"Login": secretPassword, "Made": secretPassword},
		Schemas: map[string]Validate{"Login": func(b []byte) error {
			if strings.Contains(string(b), secretPrefix) {
				return errors.New("the schema sees a reference")
			}
			return nil
		}},
		Keep: func(string) bool { return true },
		Handlers: []Handler{
			{Name: "login", Description: "logs in", Tags: []string{"Login"}, Outputs: []string{"LoggedIn"}, Handle: func(ctx context.Context, p Payload, c Context) (Response, error) {
				note(p)
				return login(ctx, p, c)
			}},
			{Name: "maker", Description: "makes a password", Tags: []string{"Make"}, Outputs: []string{"Made"}, Handle: func(context.Context, Payload, Context) (Response, error) {
				return Reply("Made", []byte(`{"password":"`+canary+`"}`)), nil
			}},
			{
				Name: "asker", Description: "hands a password on", Tags: []string{"Ask", "Made", "LoggedIn", TagError}, Outputs: []string{"Make", "Login", "Done"},
				Peers: []string{"maker", "login"}, Handle: func(_ context.Context, p Payload, _ Context) (Response, error) {
					note(p)
					switch p.Tag {
					case "Ask":
						return Send("maker", "Make", []byte(`{}`)), nil
					case "Made":
						return Send("login", "Login", p.Bytes), nil
					}
					return Reply("Done", p.Bytes), nil
				},
			},
		},
	})
	return w, &seen
}

// clean fails if the canary is, or hashes to, anything in the journal or audit.
func (w world) clean(t *testing.T) {
	t.Helper()
	for _, e := range w.log.entries {
		if strings.Contains(e.Content, canary) || e.PayloadHash != hashing.Bytes([]byte(e.Content)) {
			t.Errorf("the journal has %s %s", e.PayloadTag, e.Content)
		}
	}
	if text := fmt.Sprintf("%+v", w.log.rejects); strings.Contains(text, canary) {
		t.Errorf("the audit has %s", text)
	}
}

func TestSecretGoesToItsHandlerAlone(t *testing.T) {
	requirements.Covers(t, "K-38")
	w, seen := secretWorld(t, always(Reply("LoggedIn", []byte(`{}`))))
	in := ingress("Login", `{"password":"`+canary+`","user":"ada"}`)
	out, err := w.Submit(t.Context(), in)
	if err != nil || string(out.Reply.Payload()) != `{}` {
		t.Fatal(out, err)
	}
	if want := []string{"Login " + `{"password":"` + canary + `","user":"ada"}`}; !slices.Equal(*seen, want) {
		t.Errorf("handlers saw %q", *seen)
	}
	w.clean(t)
	if request := w.log.entries[0].Content; !strings.Contains(request, secretPrefix) || !strings.Contains(request, `"user":"ada"`) {
		t.Errorf("the journal has %s", request)
	}
	if kept := out.Kept("my password is " + canary); kept != w.log.entries[0].Content {
		t.Errorf("kept %s", kept)
	}
}

// TestSecretPassesThroughHandsUnseen: who asked a tool for a secret holds a
// reference, and may have it delivered to a field that is marked.
func TestSecretPassesThroughHandsUnseen(t *testing.T) {
	w, seen := secretWorld(t, always(Reply("LoggedIn", []byte(`{}`))))
	if _, err := w.Submit(t.Context(), ingress("Ask", `{}`)); err != nil {
		t.Fatal(err)
	}
	w.clean(t)
	got := *seen
	if len(got) != 4 || got[2] != `Login {"password":"`+canary+`"}` {
		t.Fatalf("handlers saw %q", got)
	}
	if strings.Contains(got[1], canary) || !strings.Contains(got[1], secretPrefix) {
		t.Errorf("the asker saw %q", got[1])
	}
}

func TestSecretForWhoAskedOutside(t *testing.T) {
	w, _ := secretWorld(t, nil)
	out, err := w.Submit(t.Context(), ingress("Make", `{}`))
	if err != nil || string(out.Whole()) != `{"password":"`+canary+`"}` {
		t.Fatal(string(out.Whole()), err)
	}
	if bytes.Contains(out.Reply.Payload(), []byte(canary)) {
		t.Errorf("the envelope has %s", out.Reply.Payload())
	}
	w.clean(t)
	if kept := out.Kept("make one"); kept != "make one" {
		t.Errorf("kept %s", kept)
	}
}

// TestSecretIsNotRepeated: a handler that was given a secret has no way to put it
// where it would be kept.
func TestSecretIsNotRepeated(t *testing.T) {
	var streamed string
	for name, login := range map[string]HandleFunc{
		"answer":  always(Reply("LoggedIn", []byte(`{"hello":"`+canary+`"}`))),
		"failure": always(Fail(Failure{Code: "tool.failed", Message: "no user has " + canary, Details: []byte(`{"x":"` + canary + `"}`)})),
		"error":   func(context.Context, Payload, Context) (Response, error) { return Response{}, errors.New(canary) },
		"panic":   func(context.Context, Payload, Context) (Response, error) { panic(canary) },
		"stream": func(ctx context.Context, _ Payload, _ Context) (Response, error) {
			CallFrom(ctx).Stream("stdout", "it is "+canary)
			return Reply("LoggedIn", []byte(`{}`)), nil
		},
		"reference": func(context.Context, Payload, Context) (Response, error) {
			return Reply("LoggedIn", []byte(`{"x":"`+secretPrefix+`x"}`)), nil
		},
	} {
		w, _ := secretWorld(t, login)
		in := ingress("Login", `{"password":"`+canary+`"}`)
		in.Stream = func(_, text string) { streamed += text }
		out, err := w.Submit(t.Context(), in)
		if (err == nil) != (name == "stream" || name == "reference") {
			t.Errorf("%s: %v", name, err)
		}
		if text := fmt.Sprint(err, string(out.Reply.Payload()), out.Rejected, streamed); strings.Contains(text, canary) {
			t.Errorf("%s: %s", name, text)
		}
		w.clean(t)
	}
	if streamed != "it is "+SecretMask {
		t.Errorf("streamed %q", streamed)
	}
}

func TestSecretsAreOfOneExchange(t *testing.T) {
	w, _ := secretWorld(t, always(Reply("LoggedIn", []byte(`{}`))))
	out, err := w.Submit(t.Context(), ingress("Make", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	var invalid *ValidationError
	if _, err := w.Submit(t.Context(), ingress("Login", string(out.Reply.Payload()))); !errors.As(err, &invalid) {
		t.Errorf("a reference of another exchange: %v", err)
	}
	if len(w.log.entries) != 2 {
		t.Errorf("the journal has %d entries", len(w.log.entries))
	}
}

func TestTooManySecrets(t *testing.T) {
	v := &vault{}
	for range maxSecrets {
		if _, err := v.hide([]byte(`"x"`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.hide([]byte(`"x"`)); !errors.Is(err, errManySecrets) {
		t.Error(err)
	}
	if len(v.texts()) > 0 {
		t.Error("a secret of one letter is looked for")
	}
}
