package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// layers says which of the three hold in a node: the table of a profile, the
// confinement of a process, the slots of an agent in the node's own process.
type layers struct{ table, confined, slots bool }

// How an attempt ends: the layer that stopped it, or what it got away with.
const (
	byTable       = "stopped by the table"
	byConfinement = "stopped by the confinement"
	bySlots       = "stopped by the slots"
	byNone        = "the secret is out"
)

// TestLayersAreIndependent: an agent registers a tool that nobody asked for and
// that reads a file of others, and a message asks for it. Each layer stops that
// without the other two, so with any one disabled two are left; with none the
// file is read.
func TestLayersAreIndependent(t *testing.T) {
	requirements.Covers(t, "AP-8.0.1")
	for on, want := range map[layers]string{
		{}:                            byNone,
		{table: true}:                 byTable,
		{confined: true}:              byConfinement,
		{slots: true}:                 bySlots,
		{confined: true, slots: true}: bySlots,
		{table: true, slots: true}:    byTable,
		{table: true, confined: true}: byTable,
		{table: true, confined: true, slots: true}: byTable,
	} {
		t.Run(fmt.Sprintf("%+v", on), func(t *testing.T) {
			secrets := t.TempDir()
			if err := os.WriteFile(filepath.Join(secrets, "a"), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			var slots []string
			if !on.slots {
				slots = []string{"reach"}
			}
			w := worldOf(t, "reach", slots...)
			w.entries[id].installed.Unconfined = !on.confined
			w.approve(t)
			w.StartAll(t.Context())
			if st := w.List()[0]; on.confined && strings.HasPrefix(st.Confined, "not confined") {
				testclass.Unavailable(t, st.Confined)
			}
			if got := attempt(t, w, on.table, secrets); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// attempt sends the message and says what became of it.
func attempt(t *testing.T, w *world, table bool, secrets string) string {
	t.Helper()
	out, err := tableOf(t, w, table).Submit(t.Context(), pipeline.Ingress{
		Namespace: "urn:lightwork:test", Tag: "reach", Sender: "attacker", Thread: "root", Profile: "main",
		Payload: fmt.Appendf(nil, `{"dir":%q,"tcp":"127.0.0.1:1"}`, secrets),
	})
	var failed *supervisor.Error
	switch {
	case errors.Is(err, pipeline.ErrRouteNotFound):
		return byTable
	case errors.As(err, &failed) && failed.Code == wire.CodeRouteNotFound:
		return bySlots
	case err != nil:
		t.Fatal(err)
	}
	var got reach
	if err := json.Unmarshal(out.Reply.Payload(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Read == "yes" {
		return byNone
	}
	return byConfinement
}

// tableOf is the node's pipeline: its profile has the tool, or only another one.
func tableOf(t *testing.T, w *world, table bool) *pipeline.Pipeline {
	t.Helper()
	handler := func(name string) pipeline.Handler {
		return pipeline.Handler{
			Name: name, Description: "a tool of the agent", Tags: []string{name}, Outputs: []string{"done"},
			Handle: func(ctx context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
				r, err := w.cfg.Supervisor.Call(ctx, supervisor.Call{AgentID: id, Tool: name, Input: p.Bytes})
				if err != nil {
					return pipeline.Response{}, err
				}
				return pipeline.Reply("done", r.Output), nil
			},
		}
	}
	granted := []string{"greet", "reach"}
	if table {
		granted = granted[:1]
	}
	p, err := pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{handler("greet"), handler("reach")},
		Profiles: []pipeline.Profile{{Name: "main", Handlers: granted}}, Journal: silent{}, Audit: silent{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// silent keeps nothing.
type silent struct{}

func (silent) Append(context.Context, ...pipeline.Entry) error { return nil }
func (silent) Reject(context.Context, pipeline.Reject)         {}
