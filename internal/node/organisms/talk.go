package organisms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// A conversation's thread is root.talk[NAME].
const (
	rootThread  pipeline.ThreadID = "root"
	talkSegment string            = "talk["
)

// talk is a conversation with the organism: a thread that stays, whose context
// the curator keeps within what a model can use. It is nil where none was named.
type talk struct {
	k      *store.Store
	thread pipeline.ThreadID
	view   curator.View
}

// talk opens the conversation that a request names, with the view of what was
// said that fits the request. A profile whose journal keeps nothing has none.
func (s *Runtime) talk(ctx context.Context, l *living, req host.AskRequest) (*talk, error) {
	if req.Conversation == "" {
		return nil, nil
	}
	if p, _ := l.Profile(req.Profile); p.Retention.Policy == pipeline.PruneOnDelivery {
		return nil, &host.CallError{Code: wire.CodeInvalidInput, Message: fmt.Sprintf(
			"the profile %q keeps nothing (journal: %s), so it has no conversations: ask without one, or under a profile that retains", req.Profile, p.Retention.Policy)}
	}

	id, err := rootThread.Child(talkSegment + req.Conversation + "]")
	if err != nil {
		return nil, &host.CallError{Code: wire.CodeInvalidInput, Message: "a conversation's name has letters, digits and _.:/@- only"}
	}
	if err := s.k.Update(ctx, func(tx *store.Tx) error { return tx.EnsureThread(string(id), req.Profile) }); err != nil {
		return nil, err
	}

	// What was said is folded once it fills half of what a prompt may show, and not before.
	c, err := curator.New(curator.Config{Store: s.k.ContextStore(), FoldFrom: curator.DefaultBudget / 2})
	if err != nil {
		return nil, err
	}
	t := &talk{k: s.k, thread: id}
	t.view, _, err = c.Turn(ctx, id, req.Text)
	return t, err
}

// context is what the listener is shown of the conversation.
func (t *talk) context() string {
	if t == nil {
		return ""
	}
	return t.view.Text()
}

// masked hides what looks like a secret, in a text of any length: what is kept
// of a conversation is hashed and stored as it is (K-38).
func masked(text string) string {
	var b strings.Builder
	for len(text) > redact.MaxText {
		cut := strings.LastIndexByte(text[:redact.MaxText], '\n') + 1
		if cut == 0 {
			cut = redact.MaxText
		}
		b.WriteString(redact.Text(text[:cut]))
		text = text[cut:]
	}
	b.WriteString(redact.Text(text))
	return b.String()
}

// keep adds what was asked and answered, both or neither.
func (t *talk) keep(tx *store.Tx, e turnResult) error {
	text := e.answered
	var said struct{ Text string }
	if json.Unmarshal([]byte(text), &said) == nil && said.Text != "" {
		text = said.Text
	}

	// The role is in the content type, which the prompt shows beside a summary too.
	for _, said := range []struct{ role, text string }{{chat.RoleUser, e.asked}, {chat.RoleAssistant, text}} {
		if _, err := tx.PutSegment(string(t.thread), "text/plain; role="+said.role, []byte(masked(said.text))); err != nil {
			return fmt.Errorf("keep the conversation: %w", err)
		}
	}

	return nil
}

// returned ends the thread of a question, with what the journal policy of its
// profile asks for in the organism that it ran in, and keeps the answer in the conversation, in one step.
func (s *Runtime) returned(ctx context.Context, l *living, thread *pipeline.Thread, t *talk, e turnResult, failed error) error {
	ctx = context.WithoutCancel(ctx)
	end := curator.Returned{Thread: thread.ID(), Failed: failed != nil}
	if p, ok := l.Profile(thread.Profile()); ok {
		end.Retention = p.Retention
	}
	c, err := curator.New(curator.Config{Store: s.k.ContextStore()})
	if err != nil {
		return err
	}
	if end.Folds, err = c.Folds(ctx, end); err != nil {
		return err
	}

	return s.k.Update(ctx, func(tx *store.Tx) error {
		if failed == nil && t != nil {
			if err := t.keep(tx, e); err != nil {
				return err
			}
		}
		err := tx.ReturnThread(end)
		if errors.Is(err, row.ErrNotFound) {
			return nil // no message passed, so there is no thread
		}
		return err
	})
}

// EndInterrupted ends as failed, by the journal policy of its profile, each thread
// that was active when the node ended: whoever asked is gone, and nobody goes on
// with it. It is for the start, before anybody asks. Conversations go on.
func (s *Runtime) EndInterrupted(ctx context.Context, conf *config.Config) error {
	if s.read.Load() == nil && conf.Organism != "" {
		if o, err := organism.Load(conf.OrganismFile()); err == nil { // else its start says so
			s.read.Store(o)
		}
	}

	c, err := curator.New(curator.Config{Store: s.k.ContextStore()})
	if err != nil {
		return err
	}
	var all []journal.Thread
	err = s.k.View(ctx, func(tx *store.Tx) error {
		ids, err := tx.UnfinishedThreads()
		for _, id := range ids {
			t, found := tx.Thread(id)
			all, err = append(all, t), cmp.Or(err, found)
		}
		return err
	})
	if err != nil {
		return err
	}

	for _, t := range all {
		id := pipeline.ThreadID(t.ID)
		if id.Parent() == "" || id.Parent() == rootThread && strings.HasPrefix(t.ID, string(rootThread)+"."+talkSegment) {
			continue
		}
		if err := c.Return(ctx, curator.Returned{Thread: id, Failed: true, Retention: s.retention(t.Profile)}); err != nil {
			return fmt.Errorf("end thread %s, which was interrupted: %w", t.ID, err)
		}
		s.log.Info("a thread was interrupted by the end of the node", "thread", t.ID, "profile", t.Profile)
	}

	return nil
}

// retention is the journal policy of a profile. Of one that is no more nothing is
// deleted.
func (s *Runtime) retention(profile string) pipeline.Retention {
	if profile == operatorProfile {
		return operatorRetention
	}
	o := s.read.Load()
	if l := s.built.Load(); l != nil {
		o = l.Organism
	}
	if o != nil {
		if p, ok := o.Profile(profile); ok {
			return p.Retention
		}
	}

	return pipeline.Retention{Policy: pipeline.RetainForever}
}

// UnfoldTool is the tool by which a model reads what a conversation does not
// show it, as the handler of a listener.
const UnfoldTool = "node/context-unfold"

// newUnfoldTool makes it. It sees the conversation that its caller's question
// belongs to, and no other.
func newUnfoldTool(k *store.Store) (t organism.Tool, err error) {
	c, err := curator.New(curator.Config{Store: k.ContextStore()})
	if err != nil {
		return t, err
	}
	t.Request, t.Response = json.RawMessage(curator.UnfoldSchema), json.RawMessage(curator.OriginalSchema)
	if t.CheckRequest, err = compileCheck(t.Request); err != nil {
		return t, err
	}
	if t.CheckResponse, err = compileCheck(t.Response); err != nil {
		return t, err
	}

	t.Do = func(ctx context.Context, input []byte, at pipeline.Context) ([]byte, error) {
		doc, err := c.Original(ctx, at.Thread.Parent(), input)
		if code, ok := curator.CodeOf(err); ok {
			return nil, &organism.Failure{Failure: pipeline.Failure{Code: code, Message: err.Error()}}
		}
		return doc, err
	}
	return t, nil
}
