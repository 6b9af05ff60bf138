package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
)

// books is what one event changes: all within the transaction that the caller has begun.
type books struct{ *core }

// draft is an event to send. From is the agent that says it.
type draft struct {
	kind    event.Kind
	from    string
	to      map[string]string // recipients, and where they live
	corrID  string
	expires time.Time
	body    any
	await   bool // until each recipient has accepted

	before func(*event.Event) error // runs before the recipients here get it; may be nil
}

// emit appends an event to the outbox, and delivers it to those recipients that live
// here.
func (b *books) emit(tx *store.Tx, d draft) (*event.Event, error) {
	view, err := b.registry(tx)
	if err != nil {
		return nil, err
	}
	now := event.At(tx.Now)
	if d.expires.IsZero() {
		d.expires = tx.Now.Add(defaultLife)
	}
	head := event.Envelope{
		EventID: event.NewID("evt_", tx.Now), Kind: d.kind, SourceNodeID: b.Node, SourceAgentID: d.from, CorrID: d.corrID,
		CreatedAt: now, ExpiresAt: event.At(d.expires),
		Trace: event.Trace{Attempt: 1, RoutingPolicyVersion: view.routing, CapabilityPolicyVersion: view.policy},
	}
	if head.CorrID == "" {
		head.CorrID = event.NewID("corr_", tx.Now)
	}
	if len(d.to) == 1 {
		for agent := range d.to {
			head.ToAgentID = agent
		}
	}

	e, err := event.New(head, d.body)
	if err != nil {
		return nil, err
	}
	if err := (store.Outbox{Tx: tx}).Append(e); err != nil {
		return nil, err
	}
	if d.await {
		if err := (store.Outbox{Tx: tx}).Await(e, d.to, tx.Now.Add(acceptTimeout)); err != nil {
			return nil, err
		}
	}
	if d.before != nil {
		if err := d.before(e); err != nil {
			return nil, err
		}
	}
	for _, node := range d.to {
		if node == b.Node {
			return e, b.receiveOwn(tx, e)
		}
	}
	return e, nil
}

// receiveOwn is receive for an event of ours to one of our own agents. What a peer would
// refuse is counted as a peer would.
func (b *books) receiveOwn(tx *store.Tx, e *event.Event) error {
	err := b.receive(tx, e)
	var refusal *event.Refusal
	switch {
	case errors.As(err, &refusal):
		return store.Inbox{Tx: tx}.Refuse(b.Node, refusal.Code)
	case errors.Is(err, store.ErrQueueFull):
		return event.Refuse(event.Overloaded, "toAgents", "an agent here has too much in its queue")
	}
	return err
}

// receive does what an event means for this gateway. A *event.Refusal means that it was
// not taken and changed nothing.
func (b *books) receive(tx *store.Tx, e *event.Event) error {
	switch {
	case !e.ExpiresAt.After(tx.Now):
		return event.Refuse("expired", "expiresAt", "at %s", e.ExpiresAt)
	case e.CreatedAt.After(tx.Now.Add(maxSkew)):
		return event.Refuse("future", "createdAt", "%s is later than the clock here", e.CreatedAt)
	}

	switch body := e.Body.(type) {
	case *event.Message:
		return b.deliver(tx, e, body.ToAgents)
	case *event.Reply:
		return b.deliver(tx, e, []string{e.ToAgentID})
	case *event.TaskCreate:
		names := body.ToAgents
		if len(names) == 0 {
			names = []string{e.ToAgentID}
		}
		return b.deliver(tx, e, names)
	case *event.Ack:
		return b.acked(tx, e, body)
	case *event.TaskAccept:
		return b.taskAccepted(tx, e, body)
	case *event.TaskUpdate:
		return b.taskUpdated(tx, e, body)
	case *event.TaskComplete:
		return b.taskCompleted(tx, e, body)
	case *event.TaskFailed:
		return b.taskFailed(tx, e, body)
	case *event.DeadLetter:
		return b.givenUp(tx, e, body)
	}
	return event.Refuse(event.InvalidEvent, "kind", "%s", e.Kind)
}

// deliver injects an event into the sessions of those of its recipients that live here,
// and accepts it for each.
func (b *books) deliver(tx *store.Tx, e *event.Event, names []string) error {
	view, err := b.registry(tx)
	if err != nil {
		return err
	}

	for _, name := range names {
		if node, err := view.home(name); err != nil || node != b.Node {
			continue // another gateway's, or nobody's: its sender hears nothing and gives up
		}
		again, news, err := store.Inbox{Tx: tx}.Inject(e, name)
		switch {
		case errors.Is(err, store.ErrTaken):
			return event.Refuse("event_id_taken", "eventId", "%s is of another gateway", e.EventID)
		case err != nil:
			return err
		case again:
			if err := (store.Inbox{Tx: tx}).Refuse(e.SourceNodeID, "duplicate"); err != nil {
				return err
			}
		}
		if !again {
			if err := b.taskOpened(tx, e, name); err != nil {
				return err
			}
		}
		if news { // the first, or one that was sent again because our word was lost
			if err := b.ack(tx, e, name, event.Accepted); err != nil {
				return err
			}
		}
	}
	return nil
}

// ack says on our own outbox what became of an event for one recipient.
func (b *books) ack(tx *store.Tx, e *event.Event, agent, word string) error {
	corr := e.CorrID
	if corr == "" {
		corr = e.EventID
	}
	_, err := b.emit(tx, draft{
		kind: event.KindAck, from: agent, to: map[string]string{e.SourceAgentID: e.SourceNodeID}, corrID: corr, expires: tx.Now.Add(event.MaxLife),
		body: event.Ack{
			RefEventID: e.EventID, RefKind: e.Kind, AckType: word,
			AckedByNodeID: b.Node, AckedByAgentID: agent, AckedAt: event.At(tx.Now),
		},
	})
	return err
}

// acked notes what a recipient's gateway says of an event of ours.
func (b *books) acked(tx *store.Tx, e *event.Event, a *event.Ack) error {
	if a.AckedByNodeID != e.SourceNodeID || a.AckedByAgentID != e.SourceAgentID {
		return event.Refuse("foreign", "ackedByNodeId", "%s speaks for %s", e.SourceNodeID, a.AckedByNodeID)
	}
	if e.ToAgentID != "" {
		view, err := b.registry(tx)
		if err != nil {
			return err
		}
		if node, err := view.home(e.ToAgentID); err == nil && node != b.Node {
			return nil // for another gateway
		}
	}
	awaited, _, err := store.Outbox{Tx: tx}.Ack(a)
	switch {
	case err != nil:
		return err
	case !awaited:
		return event.Refuse("unknown_reference", "refEventId", "%s was not sent to %s of %s", a.RefEventID, a.AckedByAgentID, a.AckedByNodeID)
	case a.AckType != event.Accepted || a.RefKind != event.KindTaskCreate || a.EtaAt.IsZero():
		return nil
	}

	// In the minimal profile this stands for task_accept.
	k, found, err := store.Tasks{Tx: tx}.ByEvent(a.RefEventID, a.AckedByAgentID)
	if err != nil || !found || k.State != store.Created {
		return err
	}
	k.State, k.EtaAt = store.Taken, a.EtaAt.Time
	_, err = store.Tasks{Tx: tx}.Set(k)
	return err
}

// taskOpened keeps the task that an event asks one of our agents for.
func (b *books) taskOpened(tx *store.Tx, e *event.Event, agent string) error {
	body, ok := e.Body.(*event.TaskCreate)
	if !ok {
		return nil
	}
	k := store.Task{
		Role: store.Executor, TaskID: taskID(e, body), AgentID: agent, EventID: e.EventID, CorrID: e.CorrID,
		Peer: e.SourceNodeID, OtherAgent: e.SourceAgentID, DeadlineAt: e.ExpiresAt.Time,
	}
	describe(&k, body)
	_, err := store.Tasks{Tx: tx}.Begin(k)
	return err
}

// describe takes from the payload what both sides keep of a task.
func describe(k *store.Task, body *event.TaskCreate) {
	k.CapabilityID = body.CapabilityID
	if len(body.RequiredCapabilities) > 0 {
		k.CapabilityID = body.RequiredCapabilities[0]
	}
	if !body.DeadlineAt.IsZero() && body.DeadlineAt.Before(k.DeadlineAt) {
		k.DeadlineAt = body.DeadlineAt.Time
	}
	if body.TaskType == event.SkillDistribution {
		k.Skill = skillName(body.DelegationSkillRef)
	}
}

func taskID(e *event.Event, body *event.TaskCreate) string {
	if body.TaskID == "" {
		return e.EventID
	}
	return body.TaskID
}

// asked is the task of ours that an executor speaks of.
func (b *books) asked(tx *store.Tx, e *event.Event, taskID, agent string) (k store.Task, mine bool, err error) {
	k, found, err := store.Tasks{Tx: tx}.Find(store.Requester, taskID, agent)
	switch {
	case err != nil:
		return k, false, err
	case !found:
		view, err := b.registry(tx)
		if err != nil {
			return k, false, err
		}
		if node, err := view.home(e.ToAgentID); err == nil && node != b.Node {
			return k, false, nil // for another gateway
		}
		return k, false, event.Refuse("unknown_reference", "taskId", "%s was not asked of %s", taskID, agent)
	case k.Peer != e.SourceNodeID || agent != e.SourceAgentID:
		return k, false, event.Refuse("foreign", "taskId", "%s was asked of %s of %s", taskID, k.AgentID, k.Peer)
	case k.Ended():
		return k, false, event.Refuse("task_ended", "taskId", "%s has ended as %s", taskID, k.State)
	}
	return k, true, nil
}

func (b *books) taskAccepted(tx *store.Tx, e *event.Event, body *event.TaskAccept) error {
	k, mine, err := b.asked(tx, e, body.TaskID, body.AcceptedByAgentID)
	if err != nil || !mine {
		return err
	}
	if k.State == store.InProgress {
		return event.Refuse(event.InvalidState, "taskId", "%s is in progress", k.TaskID)
	}
	k.State, k.Summary, k.EtaAt = store.Taken, body.PlanSummary, body.EtaAt.Time
	if k.EtaAt.IsZero() {
		k.EtaAt = e.CreatedAt.Add(time.Duration(min(body.EtaSeconds, int(event.MaxLife/time.Second))) * time.Second)
	}
	_, err = store.Tasks{Tx: tx}.Set(k)
	return err
}

func (b *books) taskUpdated(tx *store.Tx, e *event.Event, body *event.TaskUpdate) error {
	k, mine, err := b.asked(tx, e, body.TaskID, e.SourceAgentID)
	if err != nil || !mine {
		return err
	}
	if k.State == store.Created {
		return event.Refuse(event.InvalidState, "taskId", "%s was not accepted yet", k.TaskID)
	}
	k.State, k.Summary, k.Progress = store.InProgress, body.Note, body.Progress
	if !body.RevisedEtaAt.IsZero() {
		k.EtaAt = body.RevisedEtaAt.Time
	}
	_, err = store.Tasks{Tx: tx}.Set(k)
	return err
}

// confirms says whether a completion names the version of the skill that was
// distributed.
func confirms(k store.Task, installed *event.SkillRef) error {
	if k.Skill != "" && skillName(installed) != k.Skill {
		return event.Refuse(event.VersionNotConfirmed, "installed", "%q is not %s", skillName(installed), k.Skill)
	}
	return nil
}

func (b *books) taskCompleted(tx *store.Tx, e *event.Event, body *event.TaskComplete) error {
	k, mine, err := b.asked(tx, e, body.TaskID, body.CompletedByAgentID)
	if err != nil || !mine {
		return err
	}
	if err := confirms(k, body.Installed); err != nil {
		return err
	}

	k.State, k.Summary, k.Progress = store.Complete, body.ResultSummary, 100
	view, err := b.registry(tx)
	if err != nil {
		return err
	}
	if c, ok := view.catalog(k.CapabilityID, k.AgentID); ok && k.Skill == "" && b.CheckResult != nil {
		if err := b.CheckResult(c.ContractSchemaRef, body.Result); err != nil {
			k.State, k.FailureClass, k.Progress = store.Failed, "execution_error", 0
			k.Summary = fmt.Sprintf("the result is not what %s says: %.200s", c.ContractSchemaRef, err)
			if err := b.review(tx, "contract:"+k.TaskID+":"+k.AgentID, k, "contract_violation"); err != nil {
				return err
			}
		}
	}
	_, err = store.Tasks{Tx: tx}.Set(k)
	return err
}

func (b *books) taskFailed(tx *store.Tx, e *event.Event, body *event.TaskFailed) error {
	k, mine, err := b.asked(tx, e, body.TaskID, body.FailedByAgent)
	if err != nil || !mine {
		return err
	}
	return b.fail(tx, k, body.FailureClass, body.ErrorSummary)
}

// fail ends a task that we asked for, and has it reviewed.
func (b *books) fail(tx *store.Tx, k store.Task, class, summary string) error {
	k.State, k.FailureClass, k.Summary = store.Failed, class, summary
	ended, err := store.Tasks{Tx: tx}.Set(k)
	if err != nil || !ended {
		return err
	}
	return b.review(tx, "failed:"+k.TaskID+":"+k.AgentID, k, class)
}

// review keeps a review item of a task, once for each cause.
func (b *books) review(tx *store.Tx, cause string, k store.Task, class string) error {
	view, err := b.registry(tx)
	if err != nil {
		return err
	}
	c, _ := view.catalog(k.CapabilityID, k.AgentID)
	return store.Tasks{Tx: tx}.Review(cause, event.Review{
		ReviewID: event.NewID("rev_", tx.Now), CapabilityID: k.CapabilityID, FailureClass: class,
		DelegationSkillVersion: c.DelegationSkillRef.Version, ExecutorSkillVersion: c.ExecutorSkillRef.Version,
		SampleCorrIDs: []string{k.CorrID}, CreatedAt: event.At(tx.Now),
	})
}

// givenUp takes out of a queue what its sender does not wait for any more.
func (b *books) givenUp(tx *store.Tx, e *event.Event, body *event.DeadLetter) error {
	entry, known, err := store.Inbox{Tx: tx}.Entry(body.RefEventID, body.ToAgentID)
	switch {
	case err != nil || !known:
		return err // it is of another gateway, or did not come
	case entry.Source != e.SourceNodeID:
		return event.Refuse("foreign", "refEventId", "%s is of %s", body.RefEventID, entry.Source)
	}

	k, found, err := store.Tasks{Tx: tx}.ByExecutor(body.RefEventID, body.ToAgentID)
	if err != nil {
		return err
	}
	if found && !k.Ended() {
		k.State, k.FailureClass, k.Summary = store.Failed, "transport_error", "the requester gave it up"
		if _, err := (store.Tasks{Tx: tx}).Set(k); err != nil {
			return err
		}
	}
	_, err = store.Inbox{Tx: tx}.Finish(body.RefEventID, body.ToAgentID)
	return err
}

// giveUp ends the wait for those who did not accept an event of ours.
func (b *books) giveUp(tx *store.Tx, e *event.Event, attempts int) error {
	out := store.Outbox{Tx: tx}
	recipients, err := out.Recipients(e.EventID)
	if err != nil {
		return err
	}
	recipients = slices.DeleteFunc(recipients, func(r store.Recipient) bool { return r.State != "open" })
	if err := out.GiveUp(e.EventID); err != nil {
		return err
	}

	for _, r := range recipients {
		_, err := b.emit(tx, draft{
			kind: event.KindDeadLetter, from: e.SourceAgentID, to: map[string]string{r.Agent: r.Node}, corrID: e.CorrID,
			body: event.DeadLetter{
				RefEventID: e.EventID, RefKind: e.Kind, ToAgentID: r.Agent, Attempts: attempts,
				Reason: "no acknowledgement after the last attempt",
			},
		})
		if err != nil {
			return err
		}
		if err := (store.Inbox{Tx: tx}).Report(r.Node, "dead_letter", fmt.Sprintf("%s %s to %s", e.Kind, e.EventID, r.Agent)); err != nil {
			return err
		}
		k, found, err := store.Tasks{Tx: tx}.ByEvent(e.EventID, r.Agent)
		if err != nil {
			return err
		}
		if found && !k.Ended() {
			if err := b.fail(tx, k, "transport_error", "nobody accepted it"); err != nil {
				return err
			}
		}
	}
	return nil
}
