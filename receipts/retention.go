package receipts

import (
	"fmt"
	"time"
)

// Retention is how long a provider keeps what it has of a job, counted from the job's
// end. An announcement tells it to everybody; a quote promises it for one job, and no
// later word of the provider shortens it.
//
// The receipt, its event, quote, acceptance, request and result events and the policy
// are no part of it: a provider keeps them for ever.
type Retention struct {
	// DisputeMs is the dispute window: within it nothing goes.
	DisputeMs      int64 `json:"dispute_window_ms"`
	ResultsMs      Keep  `json:"results_ms"`
	ArtifactsMs    Keep  `json:"artifacts_ms"`
	TrajectoriesMs Keep  `json:"trajectories_ms"`
	JournalsMs     Keep  `json:"journals_ms"`
	BlobsMs        Keep  `json:"blobs_ms"`
	EventsMs       Keep  `json:"events_ms"` // feedback and other events that prove nothing
}

// Keep is a time in ms; 0, which is null in JSON, stands for ever.
type Keep int64

// MarshalJSON writes null for ever.
func (k Keep) MarshalJSON() ([]byte, error) {
	if k == 0 {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%d", int64(k)), nil
}

// Duration is the time; 0 stands for ever.
func (k Keep) Duration() time.Duration { return time.Duration(k) * time.Millisecond }

// The parts of a job that a provider may prune.
const (
	PartResults      = "results"
	PartArtifacts    = "artifacts"
	PartTrajectories = "trajectories"
	PartJournals     = "journals"
	PartBlobs        = "blobs"
	PartEvents       = "events"
)

// Parts lists them in order.
func Parts() []string {
	return []string{PartResults, PartArtifacts, PartTrajectories, PartJournals, PartBlobs, PartEvents}
}

// Of is how long a part is kept.
func (r Retention) Of(part string) Keep {
	return map[string]Keep{
		PartResults: r.ResultsMs, PartArtifacts: r.ArtifactsMs, PartTrajectories: r.TrajectoriesMs,
		PartJournals: r.JournalsMs, PartBlobs: r.BlobsMs, PartEvents: r.EventsMs,
	}[part]
}

// MaxKeepMs bounds every time of a [Retention]: a hundred years, which a
// [time.Duration] holds.
const MaxKeepMs = 100 * 366 * 24 * 3_600_000

// Validate refuses a time that is shorter than the dispute window, and what is no time.
// Errors wrap [ErrInvalid].
func (r Retention) Validate() error {
	if r.DisputeMs <= 0 || r.DisputeMs > MaxKeepMs {
		return fmt.Errorf("%w: retention.dispute_window_ms is out of range", ErrInvalid)
	}
	for _, part := range Parts() {
		switch keep := r.Of(part); {
		case keep < 0 || keep > MaxKeepMs:
			return fmt.Errorf("%w: retention.%s_ms is out of range", ErrInvalid, part)
		case keep != 0 && int64(keep) < r.DisputeMs:
			return fmt.Errorf("%w: retention.%s_ms is shorter than the dispute window", ErrInvalid, part)
		}
	}
	return nil
}
