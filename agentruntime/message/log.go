package message

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Direction of a message, as its agent sees it.
type Direction string

// The directions.
const (
	Sent     Direction = "sent"
	Received Direction = "received"
)

// Status is the outcome of a message.
type Status string

// The statuses. If a message was answered with an error, its status is the error's.
const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
	StatusTimeout Status = "timeout"
)

// LogLine is one line of the message log (YE-L.2).
type LogLine struct {
	MessageID string    `json:"messageId"`
	Timestamp time.Time `json:"timestamp"` // of the journal entry
	Direction Direction `json:"direction"`
	FromAgent string    `json:"fromAgent"`
	ToAgent   string    `json:"toAgent"`
	Type      Type      `json:"type"`
	Status    Status    `json:"status"`
	// LatencyMs is how long the message was in transit. For an answer it is how
	// long the agent worked on it.
	LatencyMs       int64 `json:"latencyMs"`
	EvidenceCount   int   `json:"evidenceCount"` // sources
	ConfidenceScore int   `json:"confidenceScore"`
}

// Log derives the message log from a journal: one line for each message and
// direction, in the journal's order (M-4). Entries that are not messages have no
// line. content returns the payload of an entry.
func Log(entries []pipeline.Entry, content func(hashing.Digest) ([]byte, error)) ([]LogLine, error) {
	var lines []LogLine
	arrived := map[string]time.Time{} // by message id
	statusOf := map[string]Status{}   // by the id of the message answered
	for _, e := range entries {
		if _, ok := typeOfTag(e.PayloadTag); !ok {
			continue
		}
		doc, err := content(e.PayloadHash)
		if err != nil {
			return nil, fmt.Errorf("read message of journal entry %d: %w", e.ID, err)
		}
		m, err := Parse(doc)
		if err != nil {
			return nil, fmt.Errorf("read message of journal entry %d: %w", e.ID, err)
		}
		line := lineOf(e, m)
		if line.Direction == Received {
			arrived[m.ID] = e.Timestamp
		} else if at, ok := arrived[m.ReplyTo]; ok {
			line.LatencyMs = max(0, e.Timestamp.Sub(at).Milliseconds())
		}

		if line.Status != StatusSuccess && m.ReplyTo != "" {
			statusOf[m.ReplyTo] = line.Status
		}
		lines = append(lines, line)
	}

	for i, line := range lines {
		if status, ok := statusOf[line.MessageID]; ok {
			lines[i].Status = status
		}
	}

	return lines, nil
}

func lineOf(e pipeline.Entry, m Message) LogLine {
	line := LogLine{
		MessageID: m.ID, Timestamp: e.Timestamp, Direction: Received, FromAgent: m.From.AgentID, ToAgent: m.To.AgentID,
		Type: m.Type, Status: StatusSuccess, LatencyMs: max(0, e.Timestamp.Sub(m.Timestamp).Milliseconds()),
		EvidenceCount: len(m.Evidence.chain.Sources), ConfidenceScore: m.Evidence.chain.Confidence,
	}

	// The pipeline's directions are the reverse of the agent's: a message to the
	// agent is outbound for the pipeline.
	if e.Direction == pipeline.Inbound {
		line.Direction = Sent
	}
	if m.Type == TypeError {
		line.Status = StatusError
		if f, err := ContentOf[Failure](m); err == nil && f.Code == Timeout {
			line.Status = StatusTimeout
		}
	}
	return line
}
