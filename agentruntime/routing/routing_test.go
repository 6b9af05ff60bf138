package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type journal struct{}

func (journal) Append(context.Context, ...pipeline.Entry) error { return nil }
func (journal) Reject(context.Context, pipeline.Reject)         {}
func accepts(doc []byte) error                                  { var v struct{ Path string }; return json.Unmarshal(doc, &v) }

func vector(score float64) []float32 {
	return []float32{float32(score), float32(sqrt(1 - score*score))}
}

func sqrt(x float64) float64 {
	z := 1.0
	for range 60 {
		z -= (z*z - x) / (2 * z)
	}
	return z
}

// fixedScores embeds so that the seed's example has the seed's scores.
func fixedScores(_ context.Context, texts []string) ([][]float32, error) {
	scores := map[string]float64{"erases files": 0.94, "writes files": 0.87, "reads files": 0.82, "bakes bread": 0.1}
	all := make([][]float32, len(texts))
	for i, text := range texts {
		all[i] = []float32{1, 0} // a need
		if s, ok := scores[text]; ok {
			all[i] = vector(s)
		}
	}
	return all, nil
}

const pathSchema = `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`

var tools = []string{"file-read", "file-write", "file-erase", "bakery"}

func describe(name string) string {
	return map[string]string{"file-read": "reads files", "file-write": "writes files", "file-erase": "erases files", "bakery": "bakes bread"}[name]
}

// node is a pipeline whose handlers say their own name.
func node(t testing.TB, profiles map[string][]string) *pipeline.Pipeline {
	t.Helper()
	cfg := pipeline.Config{Journal: journal{}, Audit: journal{}}
	for _, name := range tools {
		cfg.Handlers = append(cfg.Handlers, pipeline.Handler{
			Name: name, Description: describe(name), Tags: []string{name + ".request"}, Outputs: []string{"done"},
			Handle: func(_ context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
				return pipeline.Reply("done", []byte(c.Self+" "+string(p.Bytes))), nil
			},
		})
	}
	for name, handlers := range profiles {
		cfg.Profiles = append(cfg.Profiles, pipeline.Profile{Name: name, Handlers: handlers})
	}
	p, err := pipeline.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func capabilities() (all []Capability) {
	for _, name := range tools {
		all = append(all, Capability{Name: name, Tag: name + ".request", Description: describe(name), Schema: json.RawMessage(pathSchema), Check: accepts})
	}
	return all
}

// counted is a filler that counts its calls by capability.
func counted(calls map[string]int, answer string, err error) Filler {
	return Filler{Name: "model", Fill: func(_ context.Context, c Capability, _ string) ([]byte, error) {
		calls[c.Name]++
		return []byte(answer), err
	}}
}

func open(t testing.TB, p *pipeline.Pipeline, profile string) *pipeline.Thread {
	t.Helper()
	thread, err := p.Open("root", profile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { thread.Finish(true) })
	return thread
}

// submit dispatches the choice as it is.
func submit(ctx context.Context, r *Router, t *pipeline.Thread, need string) (c Choice, out pipeline.Outcome, err error) {
	c, err = r.Submit(ctx, t.Table(), need, func(ctx context.Context, c Choice) (err error) {
		out, err = t.Submit(ctx, pipeline.Ingress{Namespace: "urn:test", Sender: "agent", Tag: c.Tag, Payload: c.Payload})
		return err
	})
	return c, out, err
}

// TestSeedExample is the seed's: file-erase is the best match and masked, so
// file-write is filled in, and nobody asks a model about file-erase.
func TestSeedExample(t *testing.T) {
	requirements.Covers(t, "AP-10.0.1", "AP-10.1.1", "AP-10.2.2", "AP-10.3.1", "AP-10.3.2", "AP-10.3.3", "AP-10.3.4", "AP-10.3.6", "AP-10.4.1")
	calls, trace := map[string]int{}, []string{}
	r, err := New(t.Context(), Config{
		Capabilities: capabilities(), Embed: fixedScores,
		Fillers: []Filler{counted(calls, `{"path":"tmp"}`, nil)},
		Trace:   func(s Step, detail string) { trace = append(trace, string(s)+" "+detail) },
	})
	if err != nil {
		t.Fatal(err)
	}
	thread := open(t, node(t, map[string][]string{"researcher": {"file-read", "file-write"}}), "researcher")
	choice, out, err := submit(t.Context(), r, thread, "delete the temp files")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out.Reply.Payload()); got != `file-write {"path":"tmp"}` {
		t.Errorf("reply %q", got)
	}
	var ranking []string
	for _, c := range choice.Ranking {
		ranking = append(ranking, fmt.Sprintf("%s %.2f %t", c.Name, c.Score, c.Masked))
	}
	if want := []string{"file-erase 0.94 true", "file-write 0.87 false", "file-read 0.82 false"}; !slices.Equal(ranking, want) {
		t.Errorf("ranking %v", ranking)
	}
	want := []string{"rank 3 candidates", "mask masked: [file-erase]", "select file-write", "fill model", "dispatch file-write"}
	if !slices.Equal(trace, want) {
		t.Errorf("trace %q", trace)
	}
	if calls["file-erase"] != 0 || calls["file-write"] != 1 || len(calls) != 1 {
		t.Errorf("model calls %v", calls)
	}
}

func TestDenials(t *testing.T) {
	requirements.Covers(t, "AP-10.3.5")
	calls := map[string]int{}
	r, err := New(t.Context(), Config{Capabilities: capabilities(), Embed: fixedScores, Fillers: []Filler{counted(calls, "{}", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	p := node(t, map[string][]string{"baker": {"bakery"}})
	if _, err := r.Route(t.Context(), open(t, p, "baker").Table(), "delete the temp files"); !errors.Is(err, ErrMasked) || err.Error() != "no matching capability in your profile" {
		t.Errorf("all masked: %v", err)
	}
	if len(calls) != 0 {
		t.Errorf("model calls %v", calls)
	}
	high, err := New(t.Context(), Config{Capabilities: capabilities(), Embed: fixedScores, Fillers: []Filler{Rules()}, Threshold: 0.99})
	if err != nil {
		t.Fatal(err)
	}
	table, _ := p.Table("baker")
	if _, err := high.Route(t.Context(), table, "sing"); !errors.Is(err, ErrNoMatch) {
		t.Errorf("no match: %v", err)
	}
	for _, need := range []string{"", "  \n", strings.Repeat("x", maxNeedBytes+1)} {
		if _, err := r.Route(t.Context(), table, need); !errors.Is(err, ErrNeed) {
			t.Errorf("need of %d bytes: %v", len(need), err)
		}
	}
}

// TestRouterIsAdvisory: whatever the scores are, what is dispatched is in the
// thread's table, and a lying choice would still find no route.
func TestRouterIsAdvisory(t *testing.T) {
	requirements.Covers(t, "AP-10.5.1", "AP-B.10")
	rapid.Check(t, func(rt *rapid.T) {
		allowed := rapid.SliceOfDistinct(rapid.SampledFrom(tools), rapid.ID[string]).Draw(rt, "allowed")
		scores := rapid.SliceOfN(rapid.Float64Range(0, 1), len(tools), len(tools)).Draw(rt, "scores")
		embed := func(_ context.Context, texts []string) ([][]float32, error) {
			all := make([][]float32, len(texts))
			for i, text := range texts {
				all[i] = []float32{1, 0}
				if j := slices.IndexFunc(tools, func(name string) bool { return describe(name) == text }); j >= 0 {
					all[i] = vector(scores[j])
				}
			}
			return all, nil
		}
		r, err := New(context.Background(), Config{
			Capabilities: capabilities(), Embed: embed, Threshold: 1e-9,
			Fillers: []Filler{counted(map[string]int{}, `{"path":"x"}`, nil)},
		})
		if err != nil {
			rt.Fatal(err)
		}
		thread, err := node(t, map[string][]string{"p": allowed}).Open("root", "p")
		if err != nil {
			rt.Fatal(err)
		}
		choice, out, err := submit(context.Background(), r, thread, "anything")
		if err == nil && (!slices.Contains(allowed, choice.Name) || !strings.HasPrefix(string(out.Reply.Payload()), choice.Name+" ")) {
			rt.Fatalf("chose %s of %v", choice.Name, allowed)
		}
		for _, name := range tools {
			_, err := thread.Submit(context.Background(), pipeline.Ingress{Namespace: "urn:test", Sender: "agent", Tag: name + ".request", Payload: []byte("{}")})
			if errors.Is(err, pipeline.ErrRouteNotFound) == slices.Contains(allowed, name) {
				rt.Fatalf("%s of %v: %v", name, allowed, err)
			}
		}
	})
}

// TestLadder: the dear filler is asked only where the cheap one gave nothing
// that the schema takes.
func TestLadder(t *testing.T) {
	requirements.Covers(t, "AP-10.2.3")
	p := node(t, map[string][]string{"p": {"file-read"}})
	table, _ := p.Table("p")
	for name, tt := range map[string]struct {
		cheap    Filler
		by       string
		dearRuns int
	}{
		"cheap is enough": {counted(map[string]int{}, `{"path":"a"}`, nil), "model", 0},
		"cheap fails":     {counted(map[string]int{}, "", errors.New("overloaded")), "dear", 1},
		"cheap is wrong":  {counted(map[string]int{}, `[]`, nil), "dear", 1},
	} {
		calls := map[string]int{}
		dear := counted(calls, `{"path":"b"}`, nil)
		dear.Name = "dear"
		r, err := New(t.Context(), Config{Capabilities: capabilities(), Embed: fixedScores, Fillers: []Filler{tt.cheap, dear}})
		if err != nil {
			t.Fatal(err)
		}
		choice, err := r.Route(t.Context(), table, "read it")
		if err != nil || choice.FilledBy != tt.by || calls["file-read"] != tt.dearRuns {
			t.Errorf("%s: by %s after %d calls, %v", name, choice.FilledBy, calls["file-read"], err)
		}
	}
	r, err := New(t.Context(), Config{Capabilities: capabilities(), Embed: fixedScores, Fillers: []Filler{counted(map[string]int{}, `7`, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Route(t.Context(), table, "read it"); !errors.Is(err, ErrNoForm) {
		t.Errorf("nothing fits: %v", err)
	}
}

// TestNewToolIsReachable: another capability needs no change of whoever asks.
func TestNewToolIsReachable(t *testing.T) {
	requirements.Covers(t, "AP-10.4.2")
	p := node(t, map[string][]string{"p": {"file-read", "file-erase"}})
	table, _ := p.Table("p")
	const need = "erase 'a.txt'"
	for n, want := range map[int]string{1: "file-read", 3: "file-erase"} {
		r, err := New(t.Context(), Config{Capabilities: capabilities()[:n], Embed: fixedScores, Fillers: []Filler{Rules()}})
		if err != nil {
			t.Fatal(err)
		}
		choice, err := r.Route(t.Context(), table, need)
		if err != nil || choice.Name != want || string(choice.Payload) != `{"path":"a.txt"}` {
			t.Errorf("with %d capabilities: %s %s, %v", n, choice.Name, choice.Payload, err)
		}
	}
}

func TestRules(t *testing.T) {
	for _, tt := range []struct{ schema, need, want string }{
		{pathSchema, "I need to read the contents of main.rs", `{"path":"main.rs"}`},
		{pathSchema, "show me /etc/hosts.", `{"path":"/etc/hosts"}`},
		{pathSchema, "read 'my file'", `{"path":"my file"}`},
		{`{"properties":{"url":{"type":"string"},"count":{"type":"integer"}},"required":["url"]}`, "get https://example.com/x 3 times", `{"count":3,"url":"https://example.com/x"}`},
		{`{"properties":{"mode":{"enum":["fast","slow"]},"text":{"type":"string"}},"required":["mode"]}`, "do it fast", `{"mode":"fast"}`},
		{`{"properties":{"query":{"type":"string"}},"required":["query"]}`, "who was Ada", `{"query":"who was Ada"}`},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`, `put "x" into "y"`, `{"a":"x","b":"y"}`},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`, `put "x" away`, ""},
		{`{"properties":{"n":{"type":"integer"}},"required":["n"]}`, "half of 1.5", ""},
		{`{"properties":{"mode":{"enum":["fast"]}},"required":["mode"]}`, "breakfast", ""},
		{`[]`, "x", ""},
	} {
		got, err := Rules().Fill(t.Context(), Capability{Schema: json.RawMessage(tt.schema)}, tt.need)
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %s, %v", tt.need, got, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	embedding := func(vectors [][]float32, err error) Embed {
		return func(context.Context, []string) ([][]float32, error) { return vectors, err }
	}
	two := capabilities()[:2]
	for name, cfg := range map[string]Config{
		"no embedding":   {Fillers: []Filler{Rules()}},
		"no filler":      {Embed: fixedScores},
		"no description": {Embed: fixedScores, Fillers: []Filler{Rules()}, Capabilities: []Capability{{Name: "a", Tag: "b"}}},
		"embed fails":    {Embed: embedding(nil, errors.New("down")), Fillers: []Filler{Rules()}, Capabilities: two},
		"too few":        {Embed: embedding([][]float32{{1}}, nil), Fillers: []Filler{Rules()}, Capabilities: two},
		"uneven":         {Embed: embedding([][]float32{{1}, {1, 2}}, nil), Fillers: []Filler{Rules()}, Capabilities: two},
		"empty vectors":  {Embed: embedding([][]float32{{}, {}}, nil), Fillers: []Filler{Rules()}, Capabilities: two},
	} {
		if _, err := New(t.Context(), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add(pathSchema, "read `a` b/c 1e999 https://x 'y")
	f.Add(`{"properties":{"a":{"type":["string","null"],"enum":[1,"b"]}}}`, "b")
	f.Fuzz(func(t *testing.T, schema, need string) {
		doc, err := Rules().Fill(t.Context(), Capability{Schema: json.RawMessage(schema)}, need)
		if err == nil && !json.Valid(doc) {
			t.Errorf("not JSON: %q", doc)
		}
	})
}

// TestDefaultThreshold: from 0.3 on something matches.
func TestDefaultThreshold(t *testing.T) {
	requirements.Covers(t, "APX-7")
	embed := func(_ context.Context, texts []string) (all [][]float32, _ error) {
		for _, text := range texts {
			score := map[string]float64{describe("file-read"): 0.301, describe("file-write"): 0.299, describe("file-erase"): 0, describe("bakery"): 0}
			v := []float32{1, 0}
			if s, ok := score[text]; ok {
				v = vector(s)
			}
			all = append(all, v)
		}
		return all, nil
	}
	r, err := New(t.Context(), Config{Capabilities: capabilities(), Embed: embed, Fillers: []Filler{counted(map[string]int{}, `{"path":"x"}`, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	thread := open(t, node(t, map[string][]string{"baker": tools}), "baker")
	choice, _, err := submit(t.Context(), r, thread, "something")
	if err != nil || len(choice.Ranking) != 1 || choice.Name != "file-read" {
		t.Errorf("%+v, %v", choice, err)
	}
}
