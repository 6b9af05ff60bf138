package message

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// bankNode is one agent and two tools: one that its profile has, one not. The
// journal holds what a gate asks for: what tools gave.
func bankNode(t *testing.T, work Work, bank pipeline.HandleFunc) (*world, Edge) {
	t.Helper()
	w := &world{clock: &clock{now: noon}, contents: map[hashing.Digest][]byte{}}
	gate := Gate{
		Known: func(id string) bool { return id == brain.AgentID || id == analyst.AgentID },
		Holds: func(_ context.Context, _, ref string) (bool, error) {
			for _, e := range w.entries {
				if !IsMessage(e.PayloadTag) && e.Direction == pipeline.Inbound && (e.Handler == ref || e.PayloadHash.String() == ref) {
					return true, nil
				}
			}
			return false, nil
		},
		Now: w.Now,
	}
	h, err := NewHandler(Config{
		Self: analyst, Description: "answers", Takes: []Type{TypeQuery, TypeError}, Gives: []Type{TypeResponse}, Gate: gate,
		Instruments: []Instrument{{"bank", "Get", "Got"}, {"vault", "Open", "Opened"}}, Work: work, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	all := Schemas()
	for _, tag := range []string{"Get", "Got", "Open", "Opened"} {
		all[tag] = func(doc []byte) error {
			if !json.Valid(doc) {
				return errors.New("is no JSON")
			}
			return nil
		}
	}
	tool := func(name, in, out string) pipeline.Handler {
		return pipeline.Handler{Name: name, Description: name, Tags: []string{in}, Outputs: []string{out}, Tool: true, Handle: bank}
	}
	p, err := pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{h, tool("bank", "Get", "Got"), tool("vault", "Open", "Opened")}, Schemas: all, Journal: w, Audit: w, Now: w.Now,
		Profiles: []pipeline.Profile{{Name: "main", Handlers: []string{analyst.AgentID, "bank"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, Edge{Submit: p.Submit, Self: gateway, Now: w.Now}
}

// passOn gives the question to a tool and passes on what it said, with the
// evidence for it.
func passOn(tool string, now *world) Work {
	return func(_ context.Context, m, origin Message) (Action, error) {
		switch m.Type {
		case TypeQuery:
			return use(tool, []byte(`{"indicator":"GDP"}`)), nil
		case TypeError:
			f, err := ContentOf[Failure](m)
			if err != nil {
				return Action{}, err
			}
			answer, err := Reply(origin, f, Evidence{}, now.Now())
			return Answer(answer), err
		}
		got, err := ContentOf[Response](m)
		if err != nil {
			return Action{}, err
		}
		answer, err := Reply(origin, Response{Answer: "known", Data: got.Data}, m.Evidence, now.Now())
		return Answer(answer), err
	}
}

func askBank(t *testing.T, edge Edge) (*Message, Message) {
	t.Helper()
	m, err := edge.Deliver(t.Context(), pipeline.Ingress{
		Tag: TypeQuery.Tag(), Payload: []byte(example(t, "query")), Thread: "root", Profile: "main", Sender: brain.AgentID,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, parse(t, example(t, "query"))
}

// TestToolsGiveEvidence: what an agent cites of a tool is what the journal has.
func TestToolsGiveEvidence(t *testing.T) {
	const output = `{"value": 17240000000}`
	var w *world
	var edge Edge
	work := func(ctx context.Context, m, origin Message) (Action, error) { return passOn("bank", w)(ctx, m, origin) }
	w, edge = bankNode(t, work, func(_ context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
		if string(p.Bytes) != `{"indicator":"GDP"}` || c.Sender != analyst.AgentID {
			t.Errorf("the bank got %s from %s", p.Bytes, c.Sender)
		}
		return pipeline.Reply("Got", []byte(output)), nil
	})
	m, _ := askBank(t, edge)
	r, err := ContentOf[Response](*m)
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	if chain := m.Evidence.chain; len(chain.Sources) != 1 || chain.Sources[0].ID != "bank" ||
		chain.Provenance[0].Entity != hashing.Bytes([]byte(output)).String() || !strings.Contains(string(r.Data), "17240000000") {
		t.Errorf("answer %+v with %s", r, m.Evidence.Bytes())
	}
}

func TestToolsThatDoNotAnswer(t *testing.T) {
	fails := func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
		return pipeline.Fail(pipeline.Failure{Code: OSDataUnavailable, Message: "no such indicator"}), nil
	}
	for name, tt := range map[string]struct {
		tool string
		bank pipeline.HandleFunc
		want Code
	}{
		"no data":              {"bank", fails, DataUnavailable},
		"it panics":            {"bank", func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) { panic("x") }, SourceError},
		"the profile lacks it": {"vault", fails, Unauthorized},
		"there is none":        {"mint", fails, Unauthorized},
		"its output is rejected": {"bank", func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
			return pipeline.Reply("Got", []byte("{")), nil
		}, SourceError},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			work := func(ctx context.Context, m, origin Message) (Action, error) {
				return passOn(tt.tool, w)(ctx, m, origin)
			}
			w2, edge := bankNode(t, work, tt.bank)
			w = w2
			m, q := askBank(t, edge)
			wantFailure(t, m, q, tt.want)
		})
	}
}
