package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ackPayload is the payload of TagAck.
const ackPayload = `{"result":"ack","success":true}`

// Name is the sender of the pipeline's own messages. No handler may have this name.
const Name = "pipeline"

// caller waits for an answer. It is a handler that sent a message or, if handler is
// empty, the outside source. Answers follow these links and never a name in a message.
type caller struct {
	handler string
	back    *caller // who waits for that handler
}

// parcel is a message on its way, with the caller that waits for its answer.
type parcel struct {
	envelope Envelope
	from     *caller
	// to is where a message of a handler must arrive; not used from outside.
	to string
	// answers is the caller whose request this message answers, nil for a
	// request. The handler's next reply goes to whoever waits for that caller.
	answers *caller
}

// flow is one Submit: the messages it causes, one after the other. It belongs
// to one goroutine.
type flow struct {
	p         *Pipeline
	thread    *Thread
	ingress   Ingress
	outside   *caller
	queue     []parcel
	outcome   Outcome
	answered  bool
	answerErr error // *HandlerError where the answer is an error
	vault     *vault
	confided  map[string]bool // handlers that were given secrets
}

func (p *Pipeline) run(ctx context.Context, t *Thread, in Ingress) (Outcome, error) {
	f := &flow{p: p, thread: t, ingress: in, outside: &caller{}, vault: &vault{}, confided: map[string]bool{}}
	ctx = context.WithValue(ctx, callKey{}, f.call())
	h := Header{Namespace: in.Namespace, Tag: in.Tag, Sender: in.Sender, Thread: t.id, Profile: t.table.profile}
	p.trace(StageValidate, h)
	if _, taken := p.handlers[in.Sender]; taken || in.Sender == Name {
		p.reject(ctx, RejectMalformed, h)
		return Outcome{}, &MalformedError{"sender", "is a name inside the pipeline"}
	}
	e, err := f.admit(ctx, h, in.Payload)
	if err != nil {
		return Outcome{}, err
	}
	if len(f.vault.values) > 0 {
		f.outcome.confided = e.Payload()
	}
	f.queue = append(f.queue, parcel{envelope: e, from: f.outside})
	return f.drain(ctx)
}

// call is what handlers learn of where their messages come from.
func (f *flow) call() Call {
	in := f.ingress
	c := Call{RequestID: in.RequestID, CorrelationID: in.CorrelationID, DirectiveID: in.DirectiveID, Secrets: f.vault.texts}
	if in.Stream != nil {
		c.Stream = func(channel, text string) { in.Stream(channel, f.vault.mask(text)) }
	}
	return c
}

// drain dispatches until no message is left. A rejected message of a handler does not
// end the flow; a failed journal or a caller that gave up does.
func (f *flow) drain(ctx context.Context) (Outcome, error) {
	for len(f.queue) > 0 {
		next := f.queue[0]
		f.queue = f.queue[1:]
		if err := context.Cause(ctx); err != nil {
			return f.outcome, fmt.Errorf("thread %s: %w", f.thread.id, err)
		}
		if f.outcome.Hops == f.p.cfg.MaxHops {
			return f.outcome, ErrChainExhausted
		}

		err := f.deliver(ctx, next)
		if err != nil && next.answers == nil && !errors.Is(err, ErrJournal) {
			err = errors.Join(err, f.reportRefusal(next.from, err))
		}
		if errors.Is(err, ErrJournal) {
			return f.outcome, err
		}
		if err != nil {
			f.outcome.Rejected = append(f.outcome.Rejected, err)
		}
	}

	switch {
	case f.answered:
		return f.outcome, f.answerErr
	case len(f.outcome.Rejected) > 0:
		return f.outcome, f.outcome.Rejected[0]
	}

	// No handler replied, but the outside source must learn that the flow has ended.
	e, err := f.own(Name, TagAck, []byte(ackPayload))
	if err != nil {
		return f.outcome, err
	}
	f.outcome.Reply = e
	return f.outcome, nil
}

// admit is the validation stage: structure, then the schema of the tag.
func (f *flow) admit(ctx context.Context, h Header, payload []byte) (Envelope, error) {
	e, err := f.envelope(h, payload)
	switch {
	case err == nil:
		return e, nil
	case errors.As(err, new(*MalformedError)):
		f.p.reject(ctx, RejectMalformed, h)
		return Envelope{}, err
	}
	f.p.reject(ctx, RejectValidation, h)
	return Envelope{}, &ValidationError{h.Tag, err}
}

// secure is the security stage: the thread's table, the peers of a sending
// handler, the directive. Every refusal of a route looks the same.
func (f *flow) secure(ctx context.Context, m parcel) (Handler, error) {
	h := m.envelope.header
	f.p.trace(StageSecurity, h)
	name, ok := f.thread.table.route(h)
	if m.answers != nil && f.thread.table.takes(m.to, h.Tag) {
		name = m.to // an answer goes to the handler that asked, not where its tag routes
	}
	if !ok || (m.from != f.outside && name != m.to) {
		f.p.reject(ctx, RejectRoute, h)
		return Handler{}, fmt.Errorf("%s: %w", h.Tag, ErrRouteNotFound)
	}

	// An answer may go to any handler that asked; a request may go only to a peer.
	if m.from.handler != "" && m.answers == nil && !slices.Contains(f.p.handlers[m.from.handler].Peers, name) {
		f.p.reject(ctx, RejectPeer, h)
		return Handler{}, fmt.Errorf("%s: %w", h.Tag, ErrRouteNotFound)
	}

	handler := f.p.handlers[name]
	if handler.RequiresDirective {
		if err := f.directive(ctx); err != nil {
			f.p.reject(ctx, RejectDirective, h)
			return Handler{}, err
		}
	}

	return handler, nil
}

func (f *flow) directive(ctx context.Context) error {
	if f.ingress.DirectiveID == "" || f.p.cfg.DirectiveLive == nil {
		return ErrNoDirective
	}
	live, err := f.p.cfg.DirectiveLive(ctx, f.ingress.DirectiveID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDirective, err)
	}
	if !live {
		return ErrNoDirective
	}
	return nil
}

// deliver takes one message through security and dispatch, and its response to
// the checkpoint.
func (f *flow) deliver(ctx context.Context, m parcel) error {
	handler, err := f.secure(ctx, m)
	if err != nil {
		return err
	}
	h := m.envelope.header

	// Both entries are written in one step before the handler runs, so after a crash the
	// journal has no call without a request and lacks no call that was made.
	f.p.trace(StageJournal, h)
	entries := make([]Entry, 0, 2)
	if m.from.handler != "" {
		entries = append(entries, f.entry(Inbound, m.from.handler, m.envelope))
	}
	if err := f.record(ctx, append(entries, f.entry(Outbound, handler.Name, m.envelope))...); err != nil {
		return err
	}
	f.outcome.Hops++
	f.p.trace(StageDispatch, h)

	// Whoever this handler answers: for a request its sender, for an answer
	// the one who still waits for the handler's own.
	replyTo := m.from
	if m.answers != nil {
		replyTo = m.answers.back
	}
	response, err := f.handle(ctx, handler, m)
	f.p.trace(StageResponse, h)

	var panicked *HandlerPanicError
	switch {
	case errors.As(err, &panicked):
		f.p.cfg.Logger.Error("handler panicked", "handler", handler.Name, "tag", h.Tag, "request", f.ingress.RequestID)
		f.p.reject(ctx, RejectHandlerPanicked, h)
		return err
	case err != nil:
		return f.fail(ctx, handler.Name, replyTo, Failure{Code: "handler.failed", Message: clipText(err.Error())}, err)
	}

	return f.answer(ctx, handler, replyTo, response)
}

// handle calls the handler and recovers its panic. The handler receives the secrets of a
// request; the handler that asked receives only references in the answer.
func (f *flow) handle(ctx context.Context, h Handler, m parcel) (r Response, err error) {
	e := m.envelope
	payload := e.Payload()
	if m.answers == nil && f.p.secrets[e.header.Tag] != nil {
		f.confided[h.Name] = true
		if payload, err = f.whole(e); err != nil {
			return Response{}, err
		}
	}

	defer func() {
		if v := recover(); v != nil {
			r, err = Response{}, &HandlerPanicError{h.Name, f.vault.mask(fmt.Sprint(v))}
		}
	}()

	return h.Handle(ctx, Payload{Tag: e.Tag(), Bytes: payload}, Context{Thread: e.Thread(), Sender: e.Sender(), Self: h.Name})
}

// own makes an envelope for a payload that the pipeline itself wrote.
func (f *flow) own(sender, tag string, payload []byte) (Envelope, error) {
	return newEnvelope(Header{
		Namespace: namespace, Tag: tag, Sender: sender, Thread: f.thread.id, Profile: f.thread.table.profile,
	}, payload, f.p.cfg.MaxPayload)
}

// entry makes the journal entry of a message.
func (f *flow) entry(d Direction, handler string, e Envelope) Entry {
	entry := Entry{
		Timestamp: f.p.cfg.Now().UTC(), Thread: f.thread.id, Profile: f.thread.table.profile, Direction: d, Handler: handler,
		PayloadTag: e.header.Tag, PayloadHash: e.hash, Retention: f.thread.table.retention,
	}
	if keep := f.p.cfg.Keep; keep != nil && keep(e.header.Tag) {
		entry.Content = string(e.Payload())
	}
	return entry
}

// record writes to the journal. If it fails, the message must go no further.
func (f *flow) record(ctx context.Context, entries ...Entry) error {
	if err := f.p.cfg.Journal.Append(context.WithoutCancel(ctx), entries...); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}
