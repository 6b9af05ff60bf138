package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/cluster/wire/memwire"
)

// world is several gateways on a wire in memory, in a bubble with its own time.
type world struct {
	t     *testing.T
	net   *memwire.Network
	gates map[string]*gate
}

// gate is one gateway of a world. Its folder outlives it.
type gate struct {
	*Gateway
	cfg  Config
	wire *memwire.Wire
	stop func()

	through func(wire.Wire) wire.Wire // what stands between it and the wire; may be nil
}

// inWorld runs a test in a bubble with gateways that read each other. Each has the agent
// writer-<node>.
func inWorld(t *testing.T, nodes []string, test func(w *world)) {
	t.Helper()
	folders := map[string]string{}
	for _, node := range nodes {
		folders[node] = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memwire.New(), gates: map[string]*gate{}}
		for _, node := range nodes {
			w.net.Join(node)
		}
		for _, node := range nodes {
			cfg := Config{
				Node: node, Folder: folders[node], Peers: slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node }),
				ResolveSkill: func(_ context.Context, _ string, s event.SkillRef) error {
					if s.Name == "missing" {
						return errors.New("no such skill")
					}
					return nil
				},
				CheckResult: func(_ string, result json.RawMessage) error {
					if string(result) == `"wrong"` {
						return errors.New("not an object")
					}
					return nil
				},
			}
			w.gates[node] = &gate{cfg: cfg}
			w.start(node)
			w.ok(w.gates[node].SetAgent(t.Context(), "writer-"+node, true))
		}
		defer func() {
			for _, node := range nodes {
				w.halt(node)
			}
		}()
		w.settle()
		test(w)
	})
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start opens a gateway and lets it serve.
func (w *world) start(node string) {
	w.t.Helper()
	g := w.gates[node]
	g.wire = w.net.Join(node)
	g.cfg.Wire = g.wire
	if g.through != nil {
		g.cfg.Wire = g.through(g.wire)
	}
	opened, err := Open(w.ctx(), g.cfg)
	w.ok(err)
	g.Gateway = opened

	ctx, cancel := context.WithCancel(w.ctx())
	served := make(chan error, 1)
	go func() { served <- opened.Serve(ctx) }()
	g.stop = func() {
		cancel()
		w.ok(<-served)
		w.ok(opened.Close())
		w.ok(g.wire.Close())
		g.stop = nil
	}
}

// halt stops a gateway; what it has not said stays in its folder.
func (w *world) halt(node string) {
	if g := w.gates[node]; g.stop != nil {
		g.stop()
	}
}

// settle lets what was begun come to its end: two seconds of virtual time.
func (w *world) settle() { w.after(2 * time.Second) }

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) agent(node string) *Agent {
	w.t.Helper()
	a, err := w.gates[node].Agent(w.ctx(), "writer-"+node)
	w.ok(err)
	return a
}

func (w *world) inbox(node string) []*event.Event {
	w.t.Helper()
	list, err := w.agent(node).Inbox(w.ctx())
	w.ok(err)
	return list
}

func (w *world) send(from string, to ...string) *event.Event {
	w.t.Helper()
	e, err := w.gates[from].Send(w.ctx(), "writer-"+from, event.Message{ToAgents: to, Subject: "s", Body: "canary-of-a-body"})
	w.ok(err)
	return e
}

// sent is the state of the only recipient of an event.
func (w *world) sent(node, eventID string) string {
	w.t.Helper()
	list, err := w.gates[node].Sent(w.ctx(), eventID)
	w.ok(err)
	if len(list) != 1 {
		w.t.Fatalf("%s went to %v", eventID, list)
	}
	return list[0].State
}

func (w *world) status(node string) Status {
	w.t.Helper()
	s, err := w.gates[node].Status(w.ctx())
	w.ok(err)
	return s
}

// refused counts what a gateway refused of another for one reason.
func (w *world) refused(node, of, code string) int64 {
	w.t.Helper()
	for _, r := range w.status(node).Refusals {
		if r.Node == of && r.Code == code {
			return r.Count
		}
	}
	return 0
}

// outbox is what a gateway's stream has.
func (w *world) outbox(node string) (list []*event.Event) {
	w.t.Helper()
	messages, err := w.gates[node].wire.Outbox().Read(w.ctx(), 1, 10_000)
	w.ok(err)
	for _, m := range messages {
		e, err := event.Parse(m.Data)
		w.ok(err)
		list = append(list, e)
	}
	return list
}

// kinds are the kinds in a gateway's stream, acknowledgements with their word.
func (w *world) kinds(node string) (list []string) {
	for _, e := range w.outbox(node) {
		name := string(e.Kind)
		if a, ok := e.Body.(*event.Ack); ok {
			name += " " + a.AckType
		}
		list = append(list, name)
	}
	return list
}

func (w *world) same(got, want any, what string) {
	w.t.Helper()
	if g, x := fmt.Sprint(got), fmt.Sprint(want); g != x {
		w.t.Fatalf("%s: %s, want %s", what, g, x)
	}
}

// refusal holds an error to a code.
func (w *world) refusal(err error, code string) {
	w.t.Helper()
	var r *event.Refusal
	if !errors.As(err, &r) || r.Code != code {
		w.t.Fatalf("error %v, want %s", err, code)
	}
}

// catalog is a capability of a gateway's agent.
func catalog(node string) event.Catalog {
	skill := event.SkillRef{Name: "delegate-fs", Version: "1.3.0"}
	return event.Catalog{
		CapabilityID: "cap.fs.diff-apply", Name: "Diff", Version: "1.3.0", OwnerAgentID: "writer-" + node, DelegationSkillRef: skill,
		ExecutorSkillRef: event.SkillRef{Name: "executor-fs", Version: "1.3.0"}, ContractSchemaRef: "schema://x/1", DefaultEtaSeconds: 900,
		PublishedByAgentID: "writer-" + node,
	}
}

// task asks the agent of a gateway for a task.
func (w *world) task(from, to string) string {
	w.t.Helper()
	e, err := w.gates[from].CreateTask(w.ctx(), "writer-"+from, event.TaskCreate{Title: "t", ToAgents: []string{"writer-" + to}})
	w.ok(err)
	return e.Body.(*event.TaskCreate).TaskID
}

// part is a gateway's view of a task.
func (w *world) part(node, role, taskID string) store.Task {
	w.t.Helper()
	parts, err := w.gates[node].Task(w.ctx(), taskID)
	w.ok(err)
	for _, k := range parts {
		if k.Role == role {
			return k
		}
	}
	w.t.Fatalf("%s has no part of %s as %s", node, taskID, role)
	return store.Task{}
}

// forge puts an event into a gateway's stream that its program did not write.
func (w *world) forge(node string, change func(e *event.Envelope), body any) {
	w.t.Helper()
	info, err := w.gates[node].wire.Outbox().Info(w.ctx())
	w.ok(err)
	now := event.At(time.Now())
	e := event.Envelope{
		EventID: event.NewID("evt_", time.Now()), Seq: info.Last + 1, Kind: event.KindMessage, SourceNodeID: node, SourceAgentID: "writer-" + node,
		CorrID: "corr_1", CreatedAt: now, ExpiresAt: event.At(now.Add(time.Hour)), Trace: event.Trace{Attempt: 1},
	}
	e.Payload, err = json.Marshal(body)
	w.ok(err)
	change(&e)
	doc, err := event.Encode(&e)
	w.ok(err)
	w.net.Forge(node, wire.Message{Seq: info.Last + 1, ID: e.MessageID(), Data: doc})
}

// ctx is the context of the test in the bubble.
func (w *world) ctx() context.Context { return w.t.Context() }

// putCursor writes a cursor at gateway a as another one would.
func putCursor(w *world, node string, c event.Cursor) error {
	remote, err := w.net.Join(node).Dial(w.ctx(), "a")
	if err != nil {
		return err
	}
	defer remote.Close()
	doc, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return remote.PutCursor(w.ctx(), doc)
}
