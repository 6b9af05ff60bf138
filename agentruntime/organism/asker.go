package organism

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// askSuffix ends the name under which a thinking listener asks agents that exchange
// messages: the questions and answers are messages, but the listener's own words
// are not. The tag of a question is that name and the name of the agent. The tag of
// an answer ends in askAnswer, so that it is not taken for a tool's result and used
// as evidence.
const (
	askSuffix = ".ask"
	askAnswer = ".answer"
)

// messagePeers returns the peers of a thinking listener that exchange messages.
func (o *Organism) messagePeers(l Listener) []Listener {
	var all []Listener
	for _, name := range l.Peers {
		if peer, _ := o.Listener(name); peer.Messages != nil && l.Agent != nil {
			all = append(all, peer)
		}
	}
	return all
}

// askType returns the message type for questions in words; "" if the agent takes
// none.
func (m Messages) askType() message.Type {
	for _, t := range []message.Type{message.TypeQuery, message.TypeCommand} {
		if slices.Contains(m.Takes, t) {
			return t
		}
	}
	return ""
}

// answerTypes returns the types that an agent answers with.
func (m Messages) answerTypes() []message.Type {
	if len(m.Gives) == 0 {
		return []message.Type{message.TypeResponse, message.TypeGap}
	}
	return m.Gives
}

// addAskers adds, for each thinking listener with such peers, the handler that asks
// them on its behalf.
func (b *builder) addAskers() error {
	for _, l := range b.o.Listeners {
		peers := b.o.messagePeers(l)
		if len(peers) == 0 {
			continue
		}
		name := l.Name + askSuffix
		cfg := message.Asker{
			Self: message.Agent{AgentID: name, InstanceID: wire.NewID()}, Description: "asks agents for " + l.Name, Answer: name + askAnswer,
			Asks: map[string]message.Agent{}, Types: map[string]message.Type{}, Logger: b.parts.Logger,
			Gate: message.Gate{Known: b.out.hasAgent, Holds: b.parts.Holds, Now: time.Now},
		}
		b.out.askers[name] = true
		b.cfg.Schemas[cfg.Answer] = message.CheckAnswered

		for _, peer := range peers {
			tag := name + "." + peer.Name
			cfg.Asks[tag], cfg.Types[tag] = b.out.Messengers[peer.Name], peer.Messages.askType()
			cfg.Gives = append(cfg.Gives, peer.Messages.answerTypes()...)
			b.cfg.Schemas[tag] = message.CheckQuestion
		}

		cfg.Gives = once(cfg.Gives)
		h, err := message.NewAsker(cfg)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		b.cfg.Handlers = append(b.cfg.Handlers, h)
	}

	return nil
}

// askTool offers a peer that exchanges messages to a thinking listener as a tool.
func askTool(l, peer Listener) thinker.Tool {
	text := peer.Description
	if peer.Usage != "" {
		text += "\n" + peer.Usage
	}
	name := l.Name + askSuffix
	return thinker.Tool{
		Name: peer.Name, Description: text, Schema: json.RawMessage(message.QuestionSchema), Check: message.CheckQuestion,
		Handler: name, Tag: name + "." + peer.Name, Answers: []string{name + askAnswer},
	}
}

// requiredTags returns the tags of requests and answers of a listener's peers, and of the
// peers of the agents that it asks: a profile must have them all.
func (o *Organism) requiredTags(l Listener) []string {
	var tags []string
	seen := map[string]bool{}
	var add func(l Listener)
	add = func(l Listener) {
		if seen[l.Name] {
			return
		}
		seen[l.Name] = true

		for _, name := range l.Peers {
			p, _ := o.Listener(name)
			switch {
			case p.Messages != nil && l.Agent != nil:
				tags = append(tags, l.Name+askSuffix+"."+p.Name, l.Name+askSuffix+askAnswer)
				add(p)
			case p.Messages != nil:
				add(p)
			case p.Callable != nil:
				tags = append(tags, p.Name+callSuffix, p.Name+callSuffix+resultSuffix)
			default:
				tags = append(tags, p.PayloadClass, p.PayloadClass+resultSuffix)
			}
		}

		if l.Messages != nil {
			for _, t := range message.Types() {
				tags = append(tags, t.Tag())
			}
		}
	}
	add(l)
	return append(tags, pipeline.TagError, pipeline.TagAck)
}

// isAsker reports whether an agent id is the one under which a thinking listener
// asks.
func (b *Built) isAsker(id string) bool { return strings.HasSuffix(id, askSuffix) && b.askers[id] }
