package organism

import (
	"errors"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const twoProfiles = `
organism: {name: desk}
prompts: {calm: You are calm.}
listeners:
  - {name: greet, payload_class: Greeting, handler: com.example.ref/greet, description: Greets.}
  - name: clerk
    payload_class: AgentTask
    handler: agent
    description: Thinks.
    peers: [greet]
    agent: {prompt: calm, model: m, max_tokens: 10, max_iterations: 2}
profiles:
  thinking: {listeners: [clerk, greet]}
  tools: {listeners: [greet]}
`

// TestModelIsForThinkers: the model is in the table of a profile that has a
// thinking listener, and there for it alone; a profile of tools has no route to
// it. That the process of a tool cannot reach it by the network either is in
// host.TestPermissionsBecomeReach.
func TestModelIsForThinkers(t *testing.T) {
	requirements.Covers(t, "K-9")
	w := build(t, twoProfiles, say("done"))
	for profile, want := range map[string]bool{"thinking": true, "tools": false} {
		has := slices.ContainsFunc(w.Pipeline.Tables()[profile], func(r pipeline.Route) bool {
			return r.Handler == modelName || r.Tag == thinker.TagRequest
		})
		if has != want {
			t.Errorf("profile %s has the model: %v, want %v", profile, has, want)
		}
	}
	ask := func(profile string) error {
		_, err := w.Pipeline.Submit(t.Context(), pipeline.Ingress{
			Namespace: Namespace, Tag: thinker.TagRequest, Thread: "root", Profile: profile, Sender: "person",
			Payload: []byte(`{"messages":[{"role":"user","content":"think"}],"max_tokens":1}`),
		})
		return err
	}
	if err := ask("tools"); !errors.Is(err, pipeline.ErrRouteNotFound) {
		t.Errorf("from a profile of tools: %v", err)
	}
	var failed *pipeline.HandlerError
	if err := ask("thinking"); !errors.As(err, &failed) || failed.Failure.Code != "model.not_an_agent" {
		t.Errorf("who does not think, in a profile that does: %v", err)
	}
	if len(w.asked) != 0 {
		t.Errorf("the model was asked %d times", len(w.asked))
	}
	if _, err := w.do(t, "thinking", "AgentTask", "greet"); err != nil || len(w.asked) != 1 {
		t.Errorf("the agent: %v, %d questions", err, len(w.asked))
	}
}
