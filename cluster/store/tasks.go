package store

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
)

// The roles of a gateway in a task.
const (
	Requester = "requester"
	Executor  = "executor"
)

// The states of a task. The last two are its ends.
const (
	Created    = "created"
	Taken      = "accepted"
	InProgress = "in_progress"
	Complete   = "complete"
	Failed     = "failed"
)

// Task is one agent's part of a task, as one gateway sees it.
type Task struct {
	Role         string    `json:"role"`
	TaskID       string    `json:"taskId"`
	AgentID      string    `json:"agentId"` // who does it
	EventID      string    `json:"eventId"` // that asked for it
	CorrID       string    `json:"corrId"`
	Peer         string    `json:"peer"` // the gateway of the other side
	OtherAgent   string    `json:"requesterAgentId"`
	CapabilityID string    `json:"capabilityId,omitempty"`
	Skill        string    `json:"skill,omitempty"` // <name>@<version> that a completion confirms
	State        string    `json:"state"`
	FailureClass string    `json:"failureClass,omitempty"`
	Summary      string    `json:"summary,omitempty"`
	Progress     int       `json:"progress"`
	EtaAt        time.Time `json:"etaAt,omitzero"`
	DeadlineAt   time.Time `json:"deadlineAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// Ended says that nothing changes the task any more.
func (t Task) Ended() bool { return t.State == Complete || t.State == Failed }

// Tasks is the area of tasks, and of what has to be reviewed.
type Tasks struct{ Tx *Tx }

// Begin keeps a new task. It says whether there was none of this id for the agent.
func (t Tasks) Begin(k Task) (bool, error) {
	n, err := t.Tx.exec(`INSERT OR IGNORE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'created', '', '', 0, ?, ?, ?)`,
		k.Role, k.TaskID, k.AgentID, k.EventID, k.CorrID, k.Peer, k.OtherAgent, k.CapabilityID, k.Skill,
		unix(k.EtaAt), unix(k.DeadlineAt), unix(t.Tx.Now))
	return n > 0, err
}

func (t Tasks) list(where string, args ...any) ([]Task, error) {
	type row struct {
		Task
		eta, deadline, updated int64
	}
	rows, err := all(t.Tx, func(r *row) []any {
		return []any{
			&r.Role, &r.TaskID, &r.AgentID, &r.EventID, &r.CorrID, &r.Peer, &r.OtherAgent, &r.CapabilityID, &r.Skill,
			&r.State, &r.FailureClass, &r.Summary, &r.Progress, &r.eta, &r.deadline, &r.updated,
		}
	}, `SELECT role, task_id, agent_id, event_id, corr_id, peer, other_agent, capability_id, skill,
		state, failure_class, summary, progress, eta_at, deadline_at, updated_at FROM tasks `+where, args...)

	var list []Task
	for _, r := range rows {
		r.EtaAt, r.DeadlineAt, r.UpdatedAt = fromUnix(r.eta), fromUnix(r.deadline), fromUnix(r.updated)
		list = append(list, r.Task)
	}
	return list, err
}

// Find returns the task of an agent.
func (t Tasks) Find(role, taskID, agent string) (k Task, found bool, err error) {
	list, err := t.list("WHERE role = ? AND task_id = ? AND agent_id = ?", role, taskID, agent)
	if err != nil || len(list) == 0 {
		return Task{}, false, err
	}
	return list[0], true, nil
}

// ByEvent returns the task that an event of ours asked an agent for.
func (t Tasks) ByEvent(eventID, agent string) (Task, bool, error) {
	return t.byEvent(Requester, eventID, agent)
}

// ByExecutor returns the task that a received event asked one of our agents for.
func (t Tasks) ByExecutor(eventID, agent string) (Task, bool, error) {
	return t.byEvent(Executor, eventID, agent)
}

func (t Tasks) byEvent(role, eventID, agent string) (Task, bool, error) {
	list, err := t.list("WHERE event_id = ? AND agent_id = ? AND role = ?", eventID, agent, role)
	if err != nil || len(list) == 0 {
		return Task{}, false, err
	}
	return list[0], true, nil
}

// Latest are the tasks that changed last.
func (t Tasks) Latest(count int) ([]Task, error) {
	return t.list("ORDER BY updated_at DESC, task_id LIMIT ?", count)
}

// Parts are all parts of a task.
func (t Tasks) Parts(taskID string) ([]Task, error) {
	return t.list("WHERE task_id = ? ORDER BY role, agent_id", taskID)
}

// Set moves a task that has not ended. It says whether it did: a task that ended stays
// as it is.
func (t Tasks) Set(k Task) (bool, error) {
	n, err := t.Tx.exec(`UPDATE tasks SET state = ?, failure_class = ?, summary = ?, progress = ?, eta_at = ?, updated_at = ?
		WHERE role = ? AND task_id = ? AND agent_id = ? AND state NOT IN ('complete', 'failed')`,
		k.State, k.FailureClass, k.Summary, k.Progress, unix(k.EtaAt), unix(t.Tx.Now), k.Role, k.TaskID, k.AgentID)
	return n > 0, err
}

// Late are asked tasks, up to count, whose eta passed before a time.
func (t Tasks) Late(before time.Time, count int) ([]Task, error) {
	return t.list("WHERE role = 'requester' AND eta_at > 0 AND eta_at <= ? AND state NOT IN ('complete', 'failed') LIMIT ?", unix(before), count)
}

// Overdue are open tasks of a role, up to count, whose deadline passed before a time.
func (t Tasks) Overdue(role string, before time.Time, count int) ([]Task, error) {
	return t.list("WHERE role = ? AND deadline_at <= ? AND state NOT IN ('complete', 'failed') LIMIT ?", role, unix(before), count)
}

// Load counts the open tasks of each agent that this gateway asked.
func (t Tasks) Load() (map[string]int, error) {
	type row struct {
		agent string
		n     int
	}
	rows, err := all(t.Tx, func(r *row) []any { return []any{&r.agent, &r.n} },
		"SELECT agent_id, count(*) FROM tasks WHERE role = 'requester' AND state NOT IN ('complete', 'failed') GROUP BY agent_id")
	load := map[string]int{}
	for _, r := range rows {
		load[r.agent] = r.n
	}
	return load, err
}

// Forget deletes up to count tasks that ended before a time.
func (t Tasks) Forget(before time.Time, count int) error {
	return t.Tx.run(`DELETE FROM tasks WHERE (role, task_id, agent_id) IN (
		SELECT role, task_id, agent_id FROM tasks WHERE updated_at < ? AND state IN ('complete', 'failed') LIMIT ?)`, unix(before), count)
}

// Review keeps a review item, once for each cause.
func (t Tasks) Review(cause string, r event.Review) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return t.Tx.run("INSERT OR IGNORE INTO reviews VALUES (?, ?, ?)", r.ReviewID, cause, body)
}

// Reviews are the last count, the latest first.
func (t Tasks) Reviews(count int) ([]event.Review, error) {
	bodies, err := all(t.Tx, func(b *[]byte) []any { return []any{b} }, "SELECT body FROM reviews ORDER BY review_id DESC LIMIT ?", count)
	var list []event.Review
	for _, body := range bodies {
		var r event.Review
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, err
}

// RouteFailed notes that a capability found nobody, and returns how often that happened
// since a time.
func (t Tasks) RouteFailed(capability string, since time.Time) (n int, err error) {
	if err := t.Tx.run("DELETE FROM route_failures WHERE at < ?", unix(since)); err != nil {
		return 0, err
	}
	if err := t.Tx.run("INSERT INTO route_failures VALUES (?, ?)", capability, unix(t.Tx.Now)); err != nil {
		return 0, err
	}
	_, err = t.Tx.one([]any{&n}, "SELECT count(*) FROM route_failures WHERE capability_id = ?", capability)
	return n, err
}

// RouteFound forgets the failures of a capability.
func (t Tasks) RouteFound(capability string) error {
	return t.Tx.run("DELETE FROM route_failures WHERE capability_id = ?", capability)
}

// Control is the area of the control plane's records.
type Control struct{ Tx *Tx }

// Of are the records that a gateway wrote.
func (c Control) Of(node string) (map[string][]byte, error) {
	type row struct {
		key   string
		value []byte
	}
	rows, err := all(c.Tx, func(r *row) []any { return []any{&r.key, &r.value} }, "SELECT key, value FROM records WHERE node = ?", node)
	records := map[string][]byte{}
	for _, r := range rows {
		records[r.key] = r.value
	}
	return records, err
}

// Nodes are those with records.
func (c Control) Nodes() ([]string, error) {
	return all(c.Tx, func(n *string) []any { return []any{n} }, "SELECT DISTINCT node FROM records ORDER BY node")
}

// Put keeps a record.
func (c Control) Put(node, key string, value []byte) error {
	return c.Tx.run("INSERT INTO records VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", node, key, value)
}

// Replace keeps a gateway's records in the place of those that it had.
func (c Control) Replace(node string, records map[string][]byte) error {
	had, err := c.Of(node)
	if err != nil || maps.EqualFunc(had, records, bytes.Equal) {
		return err
	}
	if err := c.Tx.run("DELETE FROM records WHERE node = ?", node); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if err := c.Put(node, key, records[key]); err != nil {
			return err
		}
	}
	return nil
}
