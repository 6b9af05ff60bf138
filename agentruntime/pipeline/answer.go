package pipeline

import (
	"context"
	"errors"
	"slices"
)

// answer turns a response into messages and sends them.
func (f *flow) answer(ctx context.Context, handler Handler, replyTo *caller, r Response) error {
	switch r.kind {
	case kindSilence:
		return f.acknowledge(replyTo)
	case kindError:
		return f.fail(ctx, handler.Name, replyTo, r.failure, nil)
	case kindReply, kindSend, kindBroadcast:
	default:
		return &ResponseError{handler.Name, "", errors.New("handler gave no response")}
	}

	var errs []error
	for _, m := range r.messages {
		e, err := f.checkpoint(ctx, handler, m)
		switch {
		case err != nil:
		case r.kind == kindReply:
			err = f.reply(ctx, handler.Name, replyTo, e, nil)
		default:
			f.queue = append(f.queue, parcel{envelope: e, from: &caller{handler: handler.Name, back: replyTo}, to: m.To})
		}

		if err != nil && r.kind != kindReply && !errors.Is(err, ErrJournal) {
			err = errors.Join(err, f.reportRefusal(&caller{handler: handler.Name, back: replyTo}, err))
		}
		if errors.Is(err, ErrJournal) {
			return err
		}
		errs = append(errs, err)
	}

	return errors.Join(errs...)
}

// reportRefusal tells a handler that takes errors why a message that it sent was
// refused. The error for a missing route never says why the route is missing.
func (f *flow) reportRefusal(from *caller, why error) error {
	if from.handler == "" || !f.thread.table.takes(from.handler, TagError) {
		return nil
	}

	failure := Failure{Code: "message.refused", Message: "the message was refused"}
	var invalid *ResponseError
	switch {
	case errors.Is(why, ErrRouteNotFound):
		failure = Failure{Code: "route.not_found", Message: ErrRouteNotFound.Error()}
	case errors.Is(why, ErrNoDirective):
		failure = Failure{Code: "directive.missing", Message: ErrNoDirective.Error()}
	case errors.As(why, new(*HandlerPanicError)):
		failure = Failure{Code: "handler.failed", Message: "the handler failed"}
	case errors.As(why, &invalid) && invalid.Handler == from.handler:
		failure = Failure{Code: "message.invalid", Message: clipText(invalid.Err.Error())}
	}

	e, err := f.own(Name, TagError, failure.payload())
	if err != nil {
		return err
	}
	f.queue = append(f.queue, parcel{envelope: e, from: &caller{}, to: from.handler, answers: from})
	return nil
}

// checkpoint makes a new envelope from a handler's untrusted output. The handler must
// have declared the tag, and the bytes must match the tag's schema. Sender, thread and
// profile come from the pipeline, not from the handler.
func (f *flow) checkpoint(ctx context.Context, handler Handler, m Message) (Envelope, error) {
	h := Header{Namespace: f.ingress.Namespace, Tag: m.Tag, Sender: handler.Name, Thread: f.thread.id, Profile: f.thread.table.profile}
	refuse := func(err error) (Envelope, error) {
		f.p.reject(ctx, RejectResponse, h)
		return Envelope{}, &ResponseError{handler.Name, clip(m.Tag), err}
	}
	if !slices.Contains(handler.Outputs, m.Tag) {
		return refuse(errors.New("tag is not among the handler's outputs"))
	}
	f.p.trace(StageValidate, h)

	e, err := f.envelope(h, m.Payload)
	switch {
	case err != nil:
		return refuse(err)
	case f.confided[handler.Name] && f.vault.contains(e.payload):
		return refuse(errEcho)
	}

	return e, nil
}

// reply brings an answer back to the handler that asked, or to the outside source. For a
// handler it passes security like any message: the profile must contain the handler, and
// the handler must accept the tag.
func (f *flow) reply(ctx context.Context, handler string, to *caller, e Envelope, failure error) error {
	if to.handler != "" {
		f.queue = append(f.queue, parcel{envelope: e, from: &caller{handler: handler}, to: to.handler, answers: to})
		return nil
	}
	if f.answered {
		f.p.reject(ctx, RejectSecondReply, e.header)
		return &ResponseError{handler, e.header.Tag, errors.New("the sender has its answer already")}
	}

	f.p.trace(StageJournal, e.header)
	if err := f.record(ctx, f.entry(Inbound, handler, e)); err != nil {
		return err
	}
	f.answered, f.answerErr, f.outcome.Reply = true, failure, e
	if f.p.secrets[e.header.Tag] != nil {
		whole, err := f.whole(e)
		if err != nil {
			return err
		}
		f.outcome.whole = whole
	}

	return nil
}

// acknowledge tells the handler that waits for a branch that the branch has ended, if
// the handler accepts TagAck. The outside source is told at the end of the whole flow.
func (f *flow) acknowledge(to *caller) error {
	if to.handler == "" {
		return nil
	}
	e, err := f.own(Name, TagAck, []byte(ackPayload))
	if err != nil {
		return err
	}
	if f.thread.table.takes(to.handler, TagAck) {
		f.queue = append(f.queue, parcel{envelope: e, from: &caller{}, to: to.handler, answers: to})
	}
	return nil
}

// fail brings a structured error to the nearest waiting handler that accepts errors, or
// else to the outside source.
func (f *flow) fail(ctx context.Context, handler string, to *caller, failure Failure, cause error) error {
	failure = f.vault.maskFailure(failure)
	if err := failure.check(); err != nil {
		h := Header{Tag: TagError, Sender: handler, Thread: f.thread.id, Profile: f.thread.table.profile}
		f.p.reject(ctx, RejectResponse, h)
		return &ResponseError{handler, TagError, err}
	}
	e, err := f.own(handler, TagError, failure.payload())
	if err != nil {
		return err
	}
	for to.handler != "" && !f.thread.table.takes(to.handler, TagError) {
		to = to.back
	}
	return f.reply(ctx, handler, to, e, &HandlerError{Handler: handler, Failure: failure, Err: cause})
}
