package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
)

const (
	textMax = 4096
	unixMax = 1 << 40
)

// AgentProfile describes an agent and its capabilities.
type AgentProfile struct {
	Name         string   `json:"name"`
	About        string   `json:"about"`
	Picture      string   `json:"picture"`
	Capabilities []string `json:"capabilities"` // schema ids
	Autonomy     string   `json:"autonomy_level"`
	Version      string   `json:"version"`
}

func (p AgentProfile) d() string             { return "profile" }
func (p AgentProfile) domain() domain.Domain { return domain.AgentProfile }
func (p AgentProfile) tags() [][]string      { return nil }

func (p AgentProfile) check() error {
	if p.Capabilities == nil || len(p.Capabilities) > 64 {
		return fmt.Errorf("%w: capabilities is not a list of up to 64", ErrInvalid)
	}

	for _, c := range p.Capabilities {
		if err := sized("capabilities", c, 1, 256); err != nil {
			return err
		}
	}

	return firstOf(
		sized("name", p.Name, 0, 256), sized("about", p.About, 0, textMax), sized("picture", p.Picture, 0, textMax), sized("version", p.Version, 1, 256),
		oneOf("autonomy_level", p.Autonomy, "supervised", "bounded", "autonomous"),
	)
}

// AgentState says whether an agent is available.
type AgentState struct {
	Version int    `json:"state_version"` // 1
	Status  string `json:"status"`        // available or paused
	Slots   int64  `json:"slots"`         // number of concurrent jobs
	Ticks   int64  `json:"tick_count"`    // number of finished jobs
	At      int64  `json:"at"`            // unix seconds
}

func (s AgentState) d() string             { return "state" }
func (s AgentState) domain() domain.Domain { return domain.AgentState }
func (s AgentState) tags() [][]string      { return [][]string{{"status", s.Status}} }

func (s AgentState) check() error {
	return firstOf(
		between("state_version", int64(s.Version), 1, 1), oneOf("status", s.Status, "available", "paused"),
		between("slots", s.Slots, 0, 1<<20), between("tick_count", s.Ticks, 0, 1<<52), between("at", s.At, 1, unixMax),
	)
}

// TickRequest announces the start of a run.
type TickRequest struct {
	Job     string `json:"job"`     // id of the request event
	Run     int64  `json:"run"`     // from 1
	Runner  string `json:"runner"`  // x-only hex
	Trigger string `json:"trigger"` // job: the run was ordered
}

func (r TickRequest) d() string             { return fmt.Sprintf("%s:%d", r.Job, r.Run) }
func (r TickRequest) domain() domain.Domain { return domain.TickRequest }

func (r TickRequest) tags() [][]string {
	return [][]string{{"e", r.Job}, {"runner", r.Runner}, {"trigger", r.Trigger}}
}

func (r TickRequest) check() error {
	return firstOf(hexID("job", r.Job), between("run", r.Run, 1, 1<<20), hexID("runner", r.Runner), oneOf("trigger", r.Trigger, "job"))
}

// TickResult reports the end of a run.
type TickResult struct {
	Actions    int64  `json:"actions"` // calls of tools
	DurationMs int64  `json:"duration_ms"`
	Request    string `json:"request"` // id of the TickRequest event
	Runner     string `json:"runner"`
	Status     string `json:"status"` // success, failure or timeout
}

func (r TickResult) d() string             { return r.Request }
func (r TickResult) domain() domain.Domain { return domain.TickResult }

func (r TickResult) tags() [][]string {
	return [][]string{{"request", r.Request}, {"runner", r.Runner}, {"status", r.Status}, {"duration_ms", number(r.DurationMs)}, {"actions", number(r.Actions)}}
}

func (r TickResult) check() error {
	return firstOf(
		hexID("request", r.Request), hexID("runner", r.Runner), oneOf("status", r.Status, "success", "failure", "timeout"),
		between("duration_ms", r.DurationMs, 0, 1<<52), between("actions", r.Actions, 0, 1<<20),
	)
}

// TrajectorySession describes a published trajectory.
type TrajectorySession struct {
	SessionID string `json:"session_id"`
	Job       string `json:"job"`        // id of the request event
	StartedAt int64  `json:"started_at"` // unix seconds
	EndedAt   int64  `json:"ended_at"`
	Events    int64  `json:"total_events"`
	// TrajectoryHash and Redacted are the hashes in the result: of the lines with
	// and without params and payload.
	TrajectoryHash hashing.Digest `json:"trajectory_hash"`
	Redacted       hashing.Digest `json:"redacted_trajectory_hash"`
	Visibility     string         `json:"visibility"` // public, or private: encrypted to the buyer
}

func (s TrajectorySession) d() string             { return s.SessionID }
func (s TrajectorySession) domain() domain.Domain { return domain.TrajectorySession }

func (s TrajectorySession) tags() [][]string {
	return [][]string{{"e", s.Job}, {"visibility", s.Visibility}}
}

func (s TrajectorySession) check() error {
	return firstOf(
		sized("session_id", s.SessionID, 1, 256), hexID("job", s.Job), between("started_at", s.StartedAt, 1, unixMax),
		between("ended_at", s.EndedAt, s.StartedAt, unixMax), between("total_events", s.Events, 1, 1<<20), oneOf("visibility", s.Visibility, "public", "private"),
	)
}

// TrajectoryEvent is one line of a trajectory.
type TrajectoryEvent struct {
	SessionID string `json:"session_id"`
	Seq       int64  `json:"seq"`  // from 1
	Step      string `json:"step"` // the line's event, as ToolCall
	// Line is the line of REPLAY.jsonl, possibly without params and payload.
	Line json.RawMessage `json:"line"`
}

func (e TrajectoryEvent) d() string             { return fmt.Sprintf("%s:%d", e.SessionID, e.Seq) }
func (e TrajectoryEvent) domain() domain.Domain { return domain.TrajectoryEvent }

func (e TrajectoryEvent) tags() [][]string {
	return [][]string{{"session", e.SessionID}, {"seq", number(e.Seq)}, {"step", e.Step}}
}

func (e TrajectoryEvent) check() error {
	var line struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(e.Line, &line) != nil || line.Event == "" || line.Event != e.Step {
		return fmt.Errorf("%w: line is none of a %s", ErrInvalid, e.Step)
	}
	return firstOf(sized("session_id", e.SessionID, 1, 256), between("seq", e.Seq, 1, 1<<20))
}
