package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
)

// Agent is what one agent of this gateway does with its session: the events that were
// injected, each once.
type Agent struct {
	books *books
	id    string
}

// maxInbox bounds what Inbox returns at once.
const maxInbox = 100

// Inbox is what waits for the agent, the oldest first. What has expired is not in it.
func (a *Agent) Inbox(ctx context.Context) (list []*event.Event, err error) {
	err = a.books.db.View(ctx, func(tx *store.Tx) error {
		list, err = store.Inbox{Tx: tx}.Queue(a.id, maxInbox)
		list = slices.DeleteFunc(list, func(e *event.Event) bool { return !e.ExpiresAt.After(tx.Now) })
		return err
	})
	return list, err
}

// Wait is Inbox, once there is something in it.
func (a *Agent) Wait(ctx context.Context) ([]*event.Event, error) {
	for {
		changed := a.books.change()
		list, err := a.Inbox(ctx)
		if err != nil || len(list) > 0 {
			return list, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// queued is an event that waits for the agent.
func (a *Agent) queued(tx *store.Tx, eventID string) (*event.Event, error) {
	e, err := store.Inbox{Tx: tx}.Queued(eventID, a.id)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, event.Refuse(event.InvalidState, "eventId", "%.60q does not wait for %s", eventID, a.id)
	case !e.ExpiresAt.After(tx.Now):
		return nil, event.Refuse("expired", "eventId", "%s expired at %s", eventID, e.ExpiresAt)
	}
	return e, nil
}

// Dismiss takes a message out of the inbox. It needs no answer.
func (a *Agent) Dismiss(ctx context.Context, eventID string) error {
	return a.books.update(ctx, func(tx *store.Tx) error {
		e, err := a.queued(tx, eventID)
		if err != nil {
			return err
		}
		if e.Kind == event.KindTaskCreate {
			return event.Refuse(event.InvalidState, "eventId", "%s asks for a task, which ends as completed or failed", eventID)
		}
		_, err = store.Inbox{Tx: tx}.Finish(eventID, a.id)
		return err
	})
}

// Reply answers a message, and takes it out of the inbox.
func (a *Agent) Reply(ctx context.Context, eventID, body string) (reply *event.Event, err error) {
	err = a.books.update(ctx, func(tx *store.Tx) error {
		e, err := a.queued(tx, eventID)
		if err != nil {
			return err
		}
		if e.Kind == event.KindTaskCreate {
			return event.Refuse(event.InvalidState, "eventId", "%s asks for a task, which ends as completed or failed", eventID)
		}
		reply, err = a.books.emit(tx, draft{
			kind: event.KindReply, from: a.id, to: map[string]string{e.SourceAgentID: e.SourceNodeID}, corrID: e.CorrID,
			body: event.Reply{RefEventID: eventID, Body: body}, await: true,
		})
		if err != nil {
			return err
		}
		return a.finish(tx, e, event.Processed)
	})
	return reply, err
}

// finish takes an event out of the inbox after its outcome, and says so.
func (a *Agent) finish(tx *store.Tx, e *event.Event, word string) error {
	if err := a.books.ack(tx, e, a.id, word); err != nil {
		return err
	}
	_, err := store.Inbox{Tx: tx}.Finish(e.EventID, a.id)
	return err
}

// step runs one step of a task of this agent, if the task is in one of the states. The
// step changes the task and says what it tells the requester.
func (a *Agent) step(ctx context.Context, taskID string, states []string, step func(tx *store.Tx, k *store.Task) (event.Kind, any, error)) error {
	return a.books.update(ctx, func(tx *store.Tx) error {
		k, found, err := store.Tasks{Tx: tx}.Find(store.Executor, taskID, a.id)
		switch {
		case err != nil:
			return err
		case !found:
			return event.Refuse(event.InvalidState, "taskId", "%.60q was not asked of %s", taskID, a.id)
		case !slices.Contains(states, k.State):
			return event.Refuse(event.InvalidState, "taskId", "%s is %s", taskID, k.State)
		case !k.DeadlineAt.After(tx.Now):
			return event.Refuse("expired", "taskId", "the deadline of %s was %s", taskID, k.DeadlineAt.Format(time.RFC3339))
		}

		kind, body, err := step(tx, &k)
		if err != nil {
			return err
		}
		return a.tell(tx, k, kind, body)
	})
}

// tell keeps a task as a step left it, tells the requester, and, after the outcome, says
// that the event is processed.
func (a *Agent) tell(tx *store.Tx, k store.Task, kind event.Kind, body any) error {
	if _, err := (store.Tasks{Tx: tx}).Set(k); err != nil {
		return err
	}
	_, err := a.books.emit(tx, draft{
		kind: kind, from: a.id, to: map[string]string{k.OtherAgent: k.Peer}, corrID: k.CorrID, expires: tx.Now.Add(event.MaxLife), body: body,
	})
	if err != nil || !k.Ended() {
		return err
	}

	word := event.Processed
	if failed, ok := body.(event.TaskFailed); ok && !failed.Retryable {
		word = event.FailedTerminal
	}
	e, err := store.Inbox{Tx: tx}.Queued(k.EventID, a.id)
	if err != nil || e == nil {
		return err
	}
	return a.finish(tx, e, word)
}

// Accept takes a task. Only after it returned may the work begin.
func (a *Agent) Accept(ctx context.Context, taskID string, eta time.Time, plan string) error {
	return a.step(ctx, taskID, []string{store.Created}, func(tx *store.Tx, k *store.Task) (event.Kind, any, error) {
		if !eta.After(tx.Now) {
			return "", nil, event.Refuse(event.InvalidEvent, "etaAt", "%s has passed", event.At(eta))
		}
		k.State, k.Summary, k.EtaAt = store.Taken, plan, eta
		return event.KindTaskAccept, event.TaskAccept{TaskID: taskID, AcceptedByAgentID: a.id, EtaAt: event.At(eta), PlanSummary: plan}, nil
	})
}

// working are the states in which a task is worked on.
var working = []string{store.Taken, store.InProgress}

// Advance tells of progress, from 0 to 100. A zero eta leaves the one that was said.
func (a *Agent) Advance(ctx context.Context, taskID string, progress int, note string, eta time.Time) error {
	return a.step(ctx, taskID, working, func(_ *store.Tx, k *store.Task) (event.Kind, any, error) {
		u := event.TaskUpdate{TaskID: taskID, Status: store.InProgress, Progress: progress, Note: note}
		k.State, k.Summary, k.Progress = store.InProgress, note, progress
		if !eta.IsZero() {
			k.EtaAt, u.RevisedEtaAt = eta, event.At(eta)
		}
		return event.KindTaskUpdate, u, nil
	})
}

// Outcome is what a task ended with.
type Outcome struct {
	Summary string
	Ref     string          // where the result is; may be empty
	Value   json.RawMessage // what the capability's contract describes; may be empty
	// Installed confirms the version of a skill that was distributed.
	Installed *event.SkillRef
}

// Complete ends a task with its result.
func (a *Agent) Complete(ctx context.Context, taskID string, r Outcome) error {
	return a.step(ctx, taskID, working, func(tx *store.Tx, k *store.Task) (event.Kind, any, error) {
		if err := confirms(*k, r.Installed); err != nil {
			return "", nil, err
		}
		k.State, k.Summary, k.Progress = store.Complete, r.Summary, 100
		return event.KindTaskComplete, event.TaskComplete{
			TaskID: taskID, CompletedByAgentID: a.id, ResultSummary: r.Summary, ResultRef: r.Ref, Result: r.Value,
			Installed: r.Installed, CompletedAt: event.At(tx.Now),
		}, nil
	})
}

// Fail ends a task without a result. Retryable says that a new task may succeed.
func (a *Agent) Fail(ctx context.Context, taskID, class, summary string, retryable bool) error {
	open := append([]string{store.Created}, working...)
	return a.step(ctx, taskID, open, func(tx *store.Tx, k *store.Task) (event.Kind, any, error) {
		failed := event.TaskFailed{
			TaskID: taskID, FailedByAgent: a.id, FailureClass: class, ErrorSummary: summary, Retryable: retryable, FailedAt: event.At(tx.Now),
		}
		k.State, k.FailureClass, k.Summary = store.Failed, class, summary
		return event.KindTaskFailed, failed, nil
	})
}
