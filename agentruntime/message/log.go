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

// Status is how a message fared.
type Status string

// The statuses. A message that was answered with an error has the error's.
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
	// LatencyMs is how long the message was under way or, if it was sent in
	// answer to another, how long its agent took for it.
	LatencyMs       int64 `json:"latencyMs"`
	EvidenceCount   int   `json:"evidenceCount"` // sources
	ConfidenceScore int   `json:"confidenceScore"`
}

// Log is the message log of a journal: one line for each message and direction,
// in the journal's order (M-4). Other entries have no line. content gives the
// payload of an entry. Nothing is written for the log: the journal is all.
func Log(entries []pipeline.Entry, content func(hashing.Digest) ([]byte, error)) ([]LogLine, error) {
	var lines []LogLine
	arrived := map[string]time.Time{} // by message id
	answered := map[string]Status{}   // by the id of the message answered
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
			answered[m.ReplyTo] = line.Status
		}
		lines = append(lines, line)
	}

	for i, line := range lines {
		if status, ok := answered[line.MessageID]; ok {
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

	// To the pipeline a message goes out to its agent, and what the agent says
	// comes in.
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
