package organism

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Messages configures which messages a listener exchanges. The listener's name is
// its agent id; its handler is the process's tool [message.Tool].
type Messages struct {
	// Takes are the message types with which others may ask it.
	Takes []message.Type `yaml:"takes"`
	// Gives are the types of its answers; if empty, response and gap.
	Gives []message.Type `yaml:"gives"`
}

// Agent ids that no listener may have.
const (
	// PersonID is the sender of questions from outside. NodeID is the sender of the
	// pipeline's refusals.
	PersonID = "person"
	NodeID   = "node"
)

func (o *Organism) checkMessages(at string, l Listener) error {
	switch {
	case l.Agent != nil || l.Callable != nil:
		return bad(at, "is only for a listener whose handler is a tool")
	case l.PayloadClass != "":
		return bad(at, "payload_class: messages have their own, leave it out")
	case !strings.HasSuffix(l.Handler, "/"+message.Tool):
		return bad(at, "the handler must be AGENT/%s", message.Tool)
	case len(l.Messages.Takes) == 0:
		return bad(at+".takes", "is missing")
	case l.Name == PersonID || l.Name == NodeID:
		return bad(at, "%q is not allowed as the name of an agent", l.Name)
	}

	for i, t := range l.Messages.Takes {
		if !slices.Contains(message.Types(), t) || t == message.TypeResponse || t == message.TypeError {
			return bad(fmt.Sprintf("%s.takes[%d]", at, i), "%q is not a message type that an agent can be asked with", t)
		}
	}

	for i, t := range l.Messages.Gives {
		if !slices.Contains(message.Types(), t) {
			return bad(fmt.Sprintf("%s.gives[%d]", at, i), "there is no message type %q", t)
		}
	}
	return nil
}

// addMessengers adds the listeners that exchange messages.
func (b *builder) addMessengers() error {
	if len(b.out.Messengers) == 0 {
		return nil
	}
	maps.Copy(b.cfg.Schemas, message.Schemas())
	b.cfg.Keep = message.IsMessage

	for _, l := range b.o.Listeners {
		if l.Messages == nil {
			continue
		}
		h, err := b.messenger(l)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		b.cfg.Handlers = append(b.cfg.Handlers, h)
	}

	return b.addAskers()
}

// nameMessengers gives each an instance id, before any handler is built.
func (b *builder) nameMessengers() {
	b.out.Messengers, b.out.askers = map[string]message.Agent{}, map[string]bool{}
	for _, l := range b.o.Listeners {
		if l.Messages != nil {
			b.out.Messengers[l.Name] = message.Agent{AgentID: l.Name, InstanceID: wire.NewID()}
		}
	}
}

func (b *builder) messenger(l Listener) (pipeline.Handler, error) {
	work, err := b.parts.Tool(l.Handler)
	if err != nil {
		return pipeline.Handler{}, err
	}
	cfg := message.Config{
		Self: b.out.Messengers[l.Name], Description: l.Description, Takes: slices.Clone(l.Messages.Takes), Gives: slices.Clone(l.Messages.answerTypes()),
		Gate: message.Gate{Known: b.out.hasAgent, Holds: b.parts.Holds, Now: time.Now}, Logger: b.parts.Logger,
		Work: message.ToolWork(func(ctx context.Context, input []byte) ([]byte, error) {
			out, err := work.Do(ctx, input, pipeline.Context{Self: l.Name})
			if failed := (*Failure)(nil); errors.As(err, &failed) {
				return nil, message.FromOS(failed.Code, failed.Message)
			}
			return out, err
		}),
	}
	if len(l.Peers) > 0 {
		cfg.Takes = append(cfg.Takes, message.TypeError)
	}

	for _, name := range l.Peers {
		if err := b.addPeer(&cfg, l, name); err != nil {
			return pipeline.Handler{}, err
		}
	}

	cfg.Takes, cfg.Gives = once(cfg.Takes), once(cfg.Gives)
	return message.NewHandler(cfg)
}

// addPeer allows an agent to ask another agent or to use a tool.
func (b *builder) addPeer(cfg *message.Config, l Listener, name string) error {
	if peer, _ := b.o.Listener(name); peer.Messages != nil {
		cfg.Peers = append(cfg.Peers, name)
		cfg.Takes = append(cfg.Takes, message.TypeResponse, message.TypeGap)
		cfg.Gives = append(cfg.Gives, peer.Messages.Takes...)
		return nil
	}
	tool, ok := b.tools[name]
	if !ok {
		return fmt.Errorf("peer %s is an agent that is not callable", name)
	}
	agent, _, _ := wire.ToolID(l.Handler).Split()
	to, _ := b.o.Listener(name)
	if b.parts.Permits != nil && !b.parts.Permits(agent, to.Handler) {
		return fmt.Errorf("peer %s: %s has no permission tool:invoke:%s", name, agent, to.Handler)
	}
	cfg.Instruments = append(cfg.Instruments, message.Instrument{Name: tool.Handler, Tag: tool.Tag, Answer: tool.Answers[0]})
	return nil
}

func once(types []message.Type) []message.Type {
	var out []message.Type
	for _, t := range types {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// hasAgent reports whether an agent id belongs to this organism (YE-V4).
func (b *Built) hasAgent(id string) bool {
	_, ok := b.Messengers[id]
	return ok || id == PersonID || id == NodeID || b.isAsker(id)
}
