package event

import (
	"encoding/json"
	"slices"
)

// Kind says what an event is.
type Kind string

// The kinds.
const (
	KindMessage      Kind = "message"
	KindReply        Kind = "reply"
	KindSignal       Kind = "signal" // a message that nobody answers
	KindAck          Kind = "ack"
	KindTaskCreate   Kind = "task_create"
	KindTaskAccept   Kind = "task_accept"
	KindTaskUpdate   Kind = "task_update"
	KindTaskComplete Kind = "task_complete"
	KindTaskFailed   Kind = "task_failed"
	KindDeadLetter   Kind = "dead_letter" // the sender gives a delivery up
)

// Limits of texts in characters, and of lists.
const (
	maxTitle   = 200
	maxText    = 5_000
	maxBody    = 10_000
	maxTargets = 256
	maxInline  = 128 << 10 // bytes of a result that is not sent by its hash
)

// The words of the priorities, of the acknowledgements, and of the task of a skill.
const (
	Normal            = "normal"
	Accepted          = "accepted"
	Processed         = "processed"
	FailedTerminal    = "failed_terminal"
	SkillDistribution = "skill_distribution"
)

// FailureClasses are how a task may fail.
var FailureClasses = []string{
	"failed_terminal", "dependency_missing", "dependency_unavailable", "capability_unavailable",
	"version_incompatible", "approval_required", "timeout", "authz_denied", "invalid_target", "overloaded",
	"execution_error", "policy_blocked", "transport_error", "unknown",
}

// payload is what every kind of payload can do: say what is wrong with it.
type payload interface{ check(f *fault) }

// Message is the payload of a message and of a signal.
type Message struct {
	ToAgents     []string `json:"toAgents"`
	Subject      string   `json:"subject"`
	Body         string   `json:"body"`
	Priority     string   `json:"priority"`
	ExpectsReply bool     `json:"expectsReply"`
}

func (m *Message) check(f *fault) {
	if len(m.ToAgents) == 0 {
		f.say("toAgents", "is empty: name at least one agent, or all")
	}
	targets(f, m.ToAgents)
	f.text("subject", m.Subject, maxTitle)
	f.text("body", m.Body, maxBody)
	priority(f, m.Priority)
}

// targets takes "all" alone, or names.
func targets(f *fault, names []string) {
	if len(names) == 1 && names[0] == Everybody {
		return
	}
	f.list("toAgents", names, maxTargets, f.agent)
}

func priority(f *fault, word string) { f.oneOf("priority", word, "low", Normal, "high") }

// Reply is the payload of an answer to a message.
type Reply struct {
	RefEventID string `json:"refEventId"`
	Body       string `json:"body"`
}

func (r *Reply) check(f *fault) {
	f.id("refEventId", r.RefEventID)
	f.text("body", r.Body, maxBody)
}

// SkillRef names a version of a skill. Path is where its owner has it.
type SkillRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path,omitempty"`
}

func (s SkillRef) check(f *fault, field string) {
	f.want(anyID.MatchString(s.Name), field+".name", s.Name, "name of a skill")
	f.want(version.MatchString(s.Version), field+".version", s.Version, "version")
	f.text(field+".path", s.Path, maxTitle)
}

// TaskCreate is the payload that asks for a task. The task of a skill, of which
// TaskType is SkillDistribution, has the last four fields; its id may be left out, and is
// then that of its event.
type TaskCreate struct {
	TaskID               string          `json:"taskId,omitempty"`
	Title                string          `json:"title,omitempty"`
	Description          string          `json:"description,omitempty"`
	ToAgents             []string        `json:"toAgents,omitzero"`
	RequiredCapabilities []string        `json:"requiredCapabilities,omitzero"`
	Priority             string          `json:"priority,omitempty"`
	RequesterAgentID     string          `json:"requesterAgentId,omitempty"`
	ResponseRequired     *bool           `json:"responseRequired,omitempty"`
	DeadlineAt           Time            `json:"deadlineAt,omitzero"`
	Input                json.RawMessage `json:"input,omitempty"` // what the capability's contract describes

	TaskType           string    `json:"taskType,omitempty"`
	CapabilityID       string    `json:"capabilityId,omitempty"`
	DelegationSkillRef *SkillRef `json:"delegationSkillRef,omitempty"`
	RequiredBy         Time      `json:"requiredBy,omitzero"`
}

func (c *TaskCreate) check(f *fault) {
	f.text("title", c.Title, maxTitle)
	f.text("description", c.Description, maxText)
	targets(f, c.ToAgents)
	f.list("requiredCapabilities", c.RequiredCapabilities, maxTargets, f.capability)
	inline(f, "input", c.Input)

	f.oneOf("taskType", c.TaskType, "", SkillDistribution)
	if c.TaskType == SkillDistribution {
		f.capability("capabilityId", c.CapabilityID)
		f.at("requiredBy", c.RequiredBy)
		if c.DelegationSkillRef == nil {
			f.say("delegationSkillRef", "is missing")
			return
		}
		c.DelegationSkillRef.check(f, "delegationSkillRef")
		return
	}

	f.id("taskId", c.TaskID)
	f.agent("requesterAgentId", c.RequesterAgentID)
	priority(f, c.Priority)
	f.at("deadlineAt", c.DeadlineAt)
	if len(c.ToAgents) == 0 && len(c.RequiredCapabilities) == 0 && f.found == nil {
		f.found = Refuse(MissingRouteFields, "toAgents", "name agents, or capabilities that the task requires")
	}
}

func inline(f *fault, field string, doc json.RawMessage) {
	if len(doc) > maxInline {
		f.say(field, "has %d bytes, and may have %d: send it by its hash", len(doc), maxInline)
	}
}

// TaskAccept is the payload of who takes a task, before it begins.
type TaskAccept struct {
	TaskID            string `json:"taskId"`
	AcceptedByAgentID string `json:"acceptedByAgentId"`
	EtaAt             Time   `json:"etaAt,omitzero"`
	EtaSeconds        int    `json:"etaSeconds,omitempty"`
	PlanSummary       string `json:"planSummary"`
}

func (a *TaskAccept) check(f *fault) {
	f.id("taskId", a.TaskID)
	f.agent("acceptedByAgentId", a.AcceptedByAgentID)
	f.text("planSummary", a.PlanSummary, maxText)
	if a.EtaAt.IsZero() && a.EtaSeconds <= 0 {
		f.say("etaAt", "is missing: say etaAt or etaSeconds")
	}
}

// TaskUpdate is the payload of progress.
type TaskUpdate struct {
	TaskID       string `json:"taskId"`
	Status       string `json:"status"`
	Progress     int    `json:"progress"`
	Note         string `json:"note"`
	RevisedEtaAt Time   `json:"revisedEtaAt,omitzero"`
}

func (u *TaskUpdate) check(f *fault) {
	f.id("taskId", u.TaskID)
	f.oneOf("status", u.Status, "in_progress")
	f.text("note", u.Note, maxText)
	if u.Progress < 0 || u.Progress > 100 {
		f.say("progress", "%d is not between 0 and 100", u.Progress)
	}
}

// TaskComplete is the payload of a task's success. Installed confirms the version of a
// distributed skill.
type TaskComplete struct {
	TaskID             string          `json:"taskId"`
	CompletedByAgentID string          `json:"completedByAgentId"`
	ResultSummary      string          `json:"resultSummary"`
	ResultRef          string          `json:"resultRef,omitempty"`
	Result             json.RawMessage `json:"result,omitempty"` // what the capability's contract describes
	Installed          *SkillRef       `json:"installed,omitempty"`
	CompletedAt        Time            `json:"completedAt"`
}

func (c *TaskComplete) check(f *fault) {
	f.id("taskId", c.TaskID)
	f.agent("completedByAgentId", c.CompletedByAgentID)
	f.text("resultSummary", c.ResultSummary, maxText)
	f.text("resultRef", c.ResultRef, maxTitle)
	inline(f, "result", c.Result)
	f.at("completedAt", c.CompletedAt)
	if c.Installed != nil {
		c.Installed.check(f, "installed")
	}
}

// TaskFailed is the payload of a task's failure.
type TaskFailed struct {
	TaskID        string `json:"taskId"`
	FailedByAgent string `json:"failedByAgentId"`
	FailureClass  string `json:"failureClass"`
	ErrorSummary  string `json:"errorSummary"`
	Retryable     bool   `json:"retryable,omitempty"` // as a new task
	FailedAt      Time   `json:"failedAt"`
}

func (t *TaskFailed) check(f *fault) {
	f.id("taskId", t.TaskID)
	f.agent("failedByAgentId", t.FailedByAgent)
	f.text("errorSummary", t.ErrorSummary, maxText)
	f.at("failedAt", t.FailedAt)
	if !slices.Contains(FailureClasses, t.FailureClass) {
		f.say("failureClass", "%.60q is not known", t.FailureClass)
	}
}

// Ack is the payload of an acknowledgement. An accepted one of a task that says an eta
// stands for TaskAccept too.
type Ack struct {
	RefEventID     string `json:"refEventId"`
	RefKind        Kind   `json:"refKind"`
	AckType        string `json:"ackType"`
	AckedByNodeID  string `json:"ackedByNodeId"`
	AckedByAgentID string `json:"ackedByAgentId"`
	AckedAt        Time   `json:"ackedAt"`
	EtaAt          Time   `json:"etaAt,omitzero"`
}

func (a *Ack) check(f *fault) {
	f.id("refEventId", a.RefEventID)
	f.oneOf("refKind", string(a.RefKind), string(KindMessage), string(KindReply), string(KindSignal), string(KindTaskCreate))
	f.oneOf("ackType", a.AckType, Accepted, Processed, FailedTerminal)
	f.node("ackedByNodeId", a.AckedByNodeID)
	f.agent("ackedByAgentId", a.AckedByAgentID)
	f.at("ackedAt", a.AckedAt)
}

// DeadLetter is the payload of a sender that gives up: nobody accepted.
type DeadLetter struct {
	RefEventID string `json:"refEventId"`
	RefKind    Kind   `json:"refKind"`
	ToAgentID  string `json:"toAgentId"`
	Attempts   int    `json:"attempts"`
	Reason     string `json:"reason"`
}

func (d *DeadLetter) check(f *fault) {
	f.id("refEventId", d.RefEventID)
	f.agent("toAgentId", d.ToAgentID)
	f.text("reason", d.Reason, maxTitle)
	if d.Attempts < 1 {
		f.say("attempts", "%d is less than 1", d.Attempts)
	}
}
