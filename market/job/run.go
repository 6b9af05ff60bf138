package job

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// Runner runs a typed job on an agent. The output of a run names this provider: its
// provenance.provider_pubkey is the provider's key, which an agent does not know, so the
// runner sets it. An output without it breaks its schema, and buyers refuse one with
// another key.
type Runner interface {
	Run(ctx context.Context, r Run) (Outcome, error)
	// Tool names the tool that jobs of a type run on, "<agent_id>/<tool_name>":
	// a job's plan names it before the run.
	Tool(schemaID string) string
}

// Run is one execution of a job.
type Run struct {
	RequestID   string
	Number      int
	SchemaID    string
	Input       []byte // canonical typed request
	Thread      string
	DirectiveID string
	Timeout     time.Duration
	// Tree is a file with the packed tree that the request names; "" if it names none.
	// The runner must not keep it.
	Tree string
	// OnStream gets output as it appears; it must not block.
	OnStream func(channel, text string)
}

// Outcome is what an agent produced.
type Outcome struct {
	Output    []byte // the result document
	Artifacts [][]byte
	// Call is the call that gave Output, as the runner's journal has it; the
	// trajectory tells of it in the journal's words (M-4). Nil: there is no
	// journal, and the trajectory has the run's own times.
	Call *Call
}

// Call is a tool's call and its result: two entries of a journal.
type Call struct {
	Asked, Answered time.Time
	Params, Output  hashing.Digest // of the payloads
}

// RunError says why a run gave no result; the job is not charged (K-47).
type RunError struct {
	Reason    Reason
	Retryable bool
}

func (e *RunError) Error() string { return e.Reason.String() }
