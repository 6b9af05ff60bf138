package organisms

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// desk has a listener that thinks and calls another, which thinks in a thread of
// its own. POLICY is the journal's.
const desk = `organism: {name: desk}
prompts: {calm: You are calm.}
listeners:
  - name: editor
    payload_class: AgentTask
    handler: agent
    description: Edits.
    peers: [chief]
    agent: {prompt: calm, max_tokens: 100, max_iterations: 5, model: haiku}
  - name: chief
    payload_class: ChiefTask
    handler: agent
    description: Decides.
    agent: {prompt: calm, max_tokens: 100, max_iterations: 5, model: haiku}
    callable: {description: Decides, parameters: [{name: what, type: string, required: true}]}
profiles:
  desk: {listeners: [editor, chief], journal: POLICY}
`

// newDesk builds the organism on a store of its own. The model says what model
// makes of the last message that it is shown.
func newDesk(t *testing.T, policy string, model func(last chat.Message) chat.Message) *Runtime {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	return openDesk(t, t.TempDir(), policy, model)
}

// openDesk is newDesk on the store in dir.
func openDesk(t *testing.T, dir, policy string, model func(last chat.Message) chat.Message) *Runtime {
	t.Helper()
	k, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	o, err := organism.Parse([]byte(strings.Replace(desk, "POLICY", policy, 1)), "organism.yaml")
	if err != nil {
		t.Fatal(err)
	}
	journal := k.PipelineLog(organismProfile)
	built, err := organism.Build(o, organism.Parts{
		Compile: compileCheck, Journal: journal, Audit: journal, DirectiveLive: journal.DirectiveLive,
		Logger: slog.New(slog.DiscardHandler), Returned: recordReturn(k),
		Chat: func(_ context.Context, r chat.Request, _ func(string)) (chat.Response, error) {
			return chat.Response{Model: r.Model, Message: model(r.Messages[len(r.Messages)-1]), FinishReason: chat.FinishStop}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Runtime{k: k, log: slog.New(slog.DiscardHandler)}
	s.built.Store(&living{Built: built})
	return s
}

func (s *Runtime) mustAsk(t *testing.T, conversation, text string) string {
	t.Helper()
	answer, err := s.Ask(t.Context(), host.AskRequest{Profile: "desk", Listener: "editor", Conversation: conversation, Text: text}, func(host.CallEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Text string }
	if err := json.Unmarshal(answer, &said); err != nil {
		t.Fatal(err)
	}
	return said.Text
}

// consult has the editor ask the chief, who decides.
func consult(last chat.Message) chat.Message {
	switch {
	case last.Role == chat.RoleTool:
		return chat.Message{Role: chat.RoleAssistant, Content: "the chief has decided"}
	case strings.Contains(last.Content, "Decides"):
		return chat.Message{Role: chat.RoleAssistant, Content: "we print on Sunday"}
	}
	return chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "chief", `{"what":"when to print"}`)}}
}

// TestThreadOfACallEndsInTheStore: it gives its result to the thread that called,
// and under each journal policy what is left of both is what the policy says.
func TestThreadOfACallEndsInTheStore(t *testing.T) {
	requirements.Covers(t, "AP-5.2.3", "AP-5.2.4", "AP-5.3.1")
	for policy, want := range map[string]struct {
		segments, entries bool
		status            curator.Status
	}{
		"retain_forever":    {true, true, curator.Expanded},
		"retain_days(3)":    {true, true, curator.Folded},
		"prune_on_delivery": {false, false, ""},
	} {
		t.Run(policy, func(t *testing.T) {
			s := newDesk(t, policy, consult)
			if got := s.mustAsk(t, "", "when do we print?"); got != "the chief has decided" {
				t.Fatalf("the answer is %q", got)
			}
			err := s.k.View(t.Context(), func(tx *store.Tx) error {
				root, err := tx.Thread("root")
				if err != nil {
					return err
				}
				asked, err := tx.Thread(root.Children[0])
				if err != nil {
					return err
				}
				called, err := tx.Thread(asked.Children[0])
				if err != nil {
					return err
				}
				if asked.State != journal.ThreadCompleted || called.State != journal.ThreadCompleted || called.Result == nil || called.Parent != asked.ID {
					t.Errorf("the threads are %+v and %+v", asked, called)
				}
				segments, err := tx.Segments(asked.ID, 1<<10)
				if err != nil {
					return err
				}
				if got := len(segments) == 1; got != want.segments {
					t.Errorf("the caller's thread has %d segments", len(segments))
				}
				for _, segment := range segments {
					if segment.Status != want.status || !strings.Contains(string(segment.Content), "we print on Sunday") {
						t.Errorf("the result is %s: %s", segment.Status, segment.Content)
					}
				}
				for _, id := range []string{asked.ID, called.ID} {
					entries, err := tx.Entries(journal.Filter{Thread: id})
					if err != nil {
						return err
					}
					if got := len(entries) > 0; got != want.entries {
						t.Errorf("%s has %d entries in the journal", id, len(entries))
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestThreadOfACallThatFailsEndsInTheStore: as failed, with nothing to give.
func TestThreadOfACallThatFailsEndsInTheStore(t *testing.T) {
	requirements.Covers(t, "AP-5.3.1")
	s := newDesk(t, "retain_forever", func(last chat.Message) chat.Message {
		if strings.Contains(last.Content, "Decides") { // calls without an end
			return chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "nobody", `{}`)}}
		}
		if last.Role == chat.RoleTool && strings.Contains(last.Content, "no such tool") {
			return chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "nobody", `{}`)}}
		}
		return consult(last)
	})
	s.mustAsk(t, "", "when do we print?")
	var states []journal.ThreadState
	err := s.k.View(t.Context(), func(tx *store.Tx) error {
		root, err := tx.Thread("root")
		if err != nil {
			return err
		}
		asked, err := tx.Thread(root.Children[0])
		if err != nil {
			return err
		}
		called, err := tx.Thread(asked.Children[0])
		states = append(states, asked.State, called.State)
		return err
	})
	if err != nil || len(states) != 2 || states[0] != journal.ThreadCompleted || states[1] != journal.ThreadFailed {
		t.Errorf("the threads are %v, %v", states, err)
	}
}

// TestThreadsOfADeadNodeEndAtTheNextStart: the question, and the call that the
// model made for it. The conversation that they belong to goes on.
func TestThreadsOfADeadNodeEndAtTheNextStart(t *testing.T) {
	requirements.Covers(t, "AP-5.3.1")
	for policy, kept := range map[string]bool{"retain_forever": true, "retain_days(3)": true, "prune_on_delivery": false} {
		t.Run(policy, func(t *testing.T) {
			t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
			dir, conversation := t.TempDir(), "sunday"
			if !kept {
				conversation = "" // such a profile has none
			}
			var first *Runtime
			first = openDesk(t, dir, policy, func(last chat.Message) chat.Message {
				if strings.Contains(last.Content, "Decides") {
					if err := first.k.Close(); err != nil { // the node is gone in the middle of the call
						t.Error(err)
					}
				}
				return consult(last)
			})
			_, err := first.Ask(t.Context(), host.AskRequest{Profile: "desk", Listener: "editor", Conversation: conversation, Text: "when do we print?"}, func(host.CallEvent) {})
			if err == nil {
				t.Fatal("a node that is gone has answered")
			}

			second := openDesk(t, dir, policy, consult)
			for range 2 { // a second time there is nothing to do
				if err := second.EndInterrupted(t.Context(), config.In(dir)); err != nil {
					t.Fatal(err)
				}
			}
			err = second.k.View(t.Context(), func(tx *store.Tx) error {
				left, err := tx.UnfinishedThreads()
				if err != nil {
					return err
				}
				want := []string{"root"}
				if conversation != "" {
					want = []string{"root.talk[sunday]", "root"}
				}
				if !slices.Equal(left, want) {
					t.Errorf("active are %v, want %v", left, want)
				}
				asked, err := tx.Thread(want[0])
				if err != nil {
					return err
				}
				for len(asked.Children) > 0 {
					if asked, err = tx.Thread(asked.Children[0]); err != nil {
						return err
					}
					if asked.State != journal.ThreadFailed {
						t.Errorf("%s is %s", asked.ID, asked.State)
					}
					entries, err := tx.Entries(journal.Filter{Thread: asked.ID})
					if err != nil {
						return err
					}
					if got := len(entries) > 0; got != kept {
						t.Errorf("%s has %d entries in the journal", asked.ID, len(entries))
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if got := second.mustAsk(t, conversation, "when do we print?"); got != "the chief has decided" {
				t.Errorf("the next answer is %q", got)
			}
		})
	}
}

// TestConversationKeepsRolesAndWhatIsShort: with room to spare, a prompt shows all
// that was said, word for word, and who said it.
func TestConversationKeepsRolesAndWhatIsShort(t *testing.T) {
	var shown string
	s := newDesk(t, "retain_forever", func(last chat.Message) chat.Message {
		shown = last.Content
		return chat.Message{Role: chat.RoleAssistant, Content: "noted"}
	})
	long := "the delivery of the paper was late again, and " + strings.Repeat("the van broke down on the hill behind the mill, ", 20)
	for _, said := range []string{"my room is number 4711", long, "what about lunch?"} {
		s.mustAsk(t, "c", said)
	}
	for _, want := range []string{"role=user, in full]\nmy room is number 4711\n", "role=user, in full]\n" + long + "\n", "role=assistant, in full]\nnoted\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the prompt has no %q:\n%s", want, shown)
		}
	}
}

// TestConversationIsFoldedBeforeItIsFull: what is off the subject is summed up once
// the conversation fills half of what a prompt may show, with its role.
func TestConversationIsFoldedBeforeItIsFull(t *testing.T) {
	var shown string
	s := newDesk(t, "retain_forever", func(last chat.Message) chat.Message {
		shown = last.Content
		return chat.Message{Role: chat.RoleAssistant, Content: "noted"}
	})
	for range 3 {
		s.mustAsk(t, "c", "the paper came late: "+strings.Repeat("the van broke down on the hill behind the mill, ", 150))
	}
	s.mustAsk(t, "c", "what about lunch?")
	if !strings.Contains(shown, "role=user, summary; in full it has about") || strings.Contains(shown, "more out of view") || len(shown) > 16<<10 {
		t.Errorf("the prompt of %d bytes is %.2000s", len(shown), shown)
	}
}
