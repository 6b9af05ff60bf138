package message

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

var (
	brain     = Agent{"one-brain", "ob-001"}         // asks, from outside
	analyst   = Agent{"macro-analyst", "ma-001"}     // answers, and asks for data
	connector = Agent{"data-connector-wb", "dc-001"} // gets data from a bank
	gateway   = Agent{"gateway", "gw-001"}           // speaks for the pipeline
)

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a bank, two agents that talk over a real pipeline, and what the node
// keeps of it.
type world struct {
	*clock
	edge   Edge
	logged *bytes.Buffer

	mu       sync.Mutex
	entries  []pipeline.Entry
	rejects  []pipeline.Reject
	contents map[hashing.Digest][]byte
	held     map[string]bool // session and reference
	broken   error           // of the journal
	status   int             // of the bank
	body     string          // of the bank
	gave     Evidence        // by the connector

	// What a test does not set, the agents do right.
	connect Work
	analyse Work
	bank    *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		clock: &clock{now: noon}, logged: &bytes.Buffer{}, contents: map[hashing.Digest][]byte{}, held: map[string]bool{},
		status: http.StatusOK, body: `{"value":17240000000}`,
	}
	w.bank = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(w.status)
		_, _ = io.WriteString(rw, w.body)
	}))
	t.Cleanup(w.bank.Close)
	w.connect, w.analyse = w.getData, w.askForData
	gate := Gate{Known: func(id string) bool {
		return id == brain.AgentID || id == analyst.AgentID || id == connector.AgentID || id == gateway.AgentID
	}, Holds: w.holds, Now: w.Now}
	logger := slog.New(slog.NewJSONHandler(w.logged, nil))
	first := w.handler(t, Config{
		Self: analyst, Description: "answers questions", Takes: []Type{TypeQuery, TypeResponse, TypeGap, TypeError},
		Gives: []Type{TypeResponse, TypeCommand, TypeGap}, Peers: []string{connector.AgentID}, Gate: gate, Logger: logger,
		Work: func(ctx context.Context, m, origin Message) (Action, error) { return w.analyse(ctx, m, origin) },
	})
	second := w.handler(t, Config{
		Self: connector, Description: "gets data", Takes: []Type{TypeCommand}, Gives: []Type{TypeResponse, TypeGap}, Gate: gate, Logger: logger,
		Work: func(ctx context.Context, m, origin Message) (Action, error) { return w.connect(ctx, m, origin) },
	})
	schemas := Schemas()
	for tag, check := range schemas {
		schemas[tag] = func(doc []byte) error { w.keep(doc); return check(doc) }
	}
	p, err := pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{first, second}, Schemas: schemas, Journal: w, Audit: w, Now: w.Now,
		Profiles: []pipeline.Profile{
			{Name: "main", Handlers: []string{analyst.AgentID, connector.AgentID}},
			{Name: "data", Handlers: []string{connector.AgentID}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.edge = Edge{Submit: p.Submit, Self: gateway, Now: w.Now}
	return w
}

func (w *world) handler(t *testing.T, cfg Config) pipeline.Handler {
	t.Helper()
	h, err := NewHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (w *world) Append(_ context.Context, entries ...pipeline.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		e.ID = uint64(len(w.entries) + 1)
		w.entries = append(w.entries, e)
	}
	return nil
}

func (w *world) Reject(_ context.Context, r pipeline.Reject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejects = append(w.rejects, r)
}

func (w *world) keep(doc []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contents[hashing.Bytes(doc)] = bytes.Clone(doc)
}

func (w *world) content(d hashing.Digest) ([]byte, error) {
	doc, ok := w.contents[d]
	if !ok {
		return nil, errors.New("no such content")
	}
	return doc, nil
}

// holds is what the gates ask; remember is what the node does with a tool's
// output.
func (w *world) holds(_ context.Context, session, ref string) (bool, error) {
	return w.held[session+" "+ref], w.broken
}

func (w *world) remember(session string, refs ...string) {
	for _, ref := range refs {
		w.held[session+" "+ref] = true
	}
}

// getData is the connector's work: one request to the bank.
func (w *world) getData(ctx context.Context, m, _ Message) (Action, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.bank.URL, nil)
	if err != nil {
		return Action{}, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return Action{}, FromOS("tool.unavailable", "the bank cannot be reached")
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return Action{}, FromOS(OSDataUnavailable, "the bank has no such indicator")
	default:
		return Action{}, FromOS("tool.unavailable", "the bank answers "+res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return Action{}, err
	}
	output := hashing.Bytes(body).String()
	w.remember(m.Context.SessionID, output, "s1")
	w.gave, err = parseEvidence(fmt.Appendf(nil, `{ "sources":[{"name":"B\u0061nk","id":"s1"}],"confidence":8.5E1,
		"citations":[{"source":"s1", "text":"GDP"}],"provenance":[{"wasDerivedFrom":"s1","entity":"%s","wasGeneratedBy":"%s"}] }`, output, connector.AgentID))
	if err != nil {
		return Action{}, err
	}
	answer, err := Reply(m, Response{Answer: "GDP", Data: body}, w.gave, w.Now())
	return Answer(answer), err
}

// askForData is the analyst's work: a question becomes a command to the
// connector, and its answer the answer.
func (w *world) askForData(_ context.Context, m, origin Message) (Action, error) {
	switch m.Type {
	case TypeQuery:
		command, err := New(analyst, connector, Command{Command: "get", Arguments: []byte(`{"indicator":"GDP"}`)}, m.Context, w.Now())
		return Ask(command), err
	case TypeResponse:
		got, err := ContentOf[Response](m)
		if err != nil {
			return Action{}, err
		}
		answer, err := Reply(origin, Response{Answer: "Yemen's GDP is known.", Data: got.Data}, m.Evidence, w.Now())
		return Answer(answer), err
	case TypeError:
		f, err := ContentOf[Failure](m)
		if err != nil {
			return Action{}, err
		}
		answer, err := Reply(origin, f, Evidence{}, w.Now())
		return Answer(answer), err
	}
	return nothing(), nil
}

// ask sends a document from the brain to the analyst.
func (w *world) ask(t *testing.T, doc string) *Message {
	t.Helper()
	return w.deliver(t, pipeline.Ingress{Tag: TypeQuery.Tag(), Payload: []byte(doc), Thread: "root", Profile: "main", Sender: brain.AgentID})
}

func (w *world) deliver(t *testing.T, in pipeline.Ingress) *Message {
	t.Helper()
	m, err := w.edge.Deliver(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantFailure wants an error message for q.
func wantFailure(t *testing.T, m *Message, q Message, code Code) Failure {
	t.Helper()
	if m == nil || m.Type != TypeError {
		t.Fatalf("got %+v, want an error", m)
	}
	f, err := ContentOf[Failure](*m)
	if err != nil || f.Code != code || f.Recoverable != code.Recoverable() {
		t.Fatalf("got %+v, %v, want %s", f, err, code)
	}
	if m.ReplyTo != q.ID || m.To != q.From || m.Context != q.Context {
		t.Errorf("error message is %+v", m)
	}
	if _, err := Encode(*m); err != nil {
		t.Errorf("error message is invalid: %v", err)
	}
	return f
}
