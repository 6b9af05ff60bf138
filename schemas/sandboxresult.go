package schemas

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

// A Status is how a sandbox run ended.
type Status string

// The statuses.
const (
	StatusSuccess   Status = "success"   // every run exited with 0
	StatusFailed    Status = "failed"    // at least one run did not
	StatusTimeout   Status = "timeout"   // the request's time limit was reached
	StatusCancelled Status = "cancelled" // the buyer cancelled
	StatusError     Status = "error"     // the sandbox itself failed
)

// SandboxRunResult is the output of oa.sandbox_run.v1.
type SandboxRunResult struct {
	EnvInfo    SandboxEnv        `json:"env_info" jsonschema:"where the commands ran"`
	Runs       []SandboxRunInfo  `json:"runs" jsonschema:"commands that were started, in order" rule:"maxitems=64"`
	Artifacts  []SandboxArtifact `json:"artifacts" jsonschema:"files the commands left" rule:"maxitems=128"`
	Status     Status            `json:"status" jsonschema:"how the job ended" rule:"enum=success|failed|timeout|cancelled|error"`
	Error      string            `json:"error,omitempty" jsonschema:"what went wrong outside the commands" rule:"maxlen=4096"`
	Provenance Provenance        `json:"provenance" jsonschema:"who made the result and how"`
}

// SandboxEnv says where the commands ran.
type SandboxEnv struct {
	ImageDigest hashing.Digest `json:"image_digest" jsonschema:"digest of the image, or of the host toolchain's manifest"`
	Hostname    string         `json:"hostname,omitempty" jsonschema:"host name inside the sandbox" rule:"maxlen=255"`
	SystemInfo  string         `json:"system_info,omitempty" jsonschema:"kernel and architecture" rule:"maxlen=1024"`
}

// SandboxRunInfo is one command that was started. The digests cover the full
// output; a preview may be shorter, at most MaxPreviewBytes.
type SandboxRunInfo struct {
	Cmd           string         `json:"cmd" jsonschema:"command line" rule:"minlen=1;maxlen=8192"`
	ExitCode      int32          `json:"exit_code" jsonschema:"exit code; 128+n for signal n"`
	DurationMS    int64          `json:"duration_ms" jsonschema:"milliseconds" rule:"min=0;max=9007199254740991"`
	StdoutSHA256  hashing.Digest `json:"stdout_sha256" jsonschema:"digest of the full standard output"`
	StderrSHA256  hashing.Digest `json:"stderr_sha256" jsonschema:"digest of the full standard error"`
	StdoutPreview string         `json:"stdout_preview,omitempty" jsonschema:"beginning of standard output" rule:"maxlen=16384"`
	StderrPreview string         `json:"stderr_preview,omitempty" jsonschema:"beginning of standard error" rule:"maxlen=16384"`
}

// SandboxArtifact is one file the commands left.
type SandboxArtifact struct {
	Path      string         `json:"path" jsonschema:"path below mount_path" rule:"minlen=1;maxlen=1024"`
	SHA256    hashing.Digest `json:"sha256" jsonschema:"digest of the file"`
	SizeBytes int64          `json:"size_bytes" jsonschema:"bytes" rule:"min=0;max=9007199254740991"`
	MimeType  string         `json:"mime_type,omitempty" jsonschema:"media type" rule:"minlen=1;maxlen=128"`
}

// check checks the rules that JSON Schema cannot express and that need no request.
func (r *SandboxRunResult) check() error {
	for i, run := range r.Runs {
		at := item("runs", i)
		if err := text(child(at, "cmd"), run.Cmd, MaxCommandBytes); err != nil {
			return err
		}
		if n := len(run.StdoutPreview); n > MaxPreviewBytes {
			return tooLong(child(at, "stdout_preview"), n, MaxPreviewBytes)
		}
		if n := len(run.StderrPreview); n > MaxPreviewBytes {
			return tooLong(child(at, "stderr_preview"), n, MaxPreviewBytes)
		}
	}

	seen := map[string]bool{}
	for i, a := range r.Artifacts {
		at := child(item("artifacts", i), "path")
		if err := relativePath(at, a.Path); err != nil {
			return err
		}
		if seen[a.Path] {
			return &FieldError{at, "is listed twice"}
		}
		seen[a.Path] = true
	}

	return r.checkStatus()
}

// checkStatus compares the status with the exit codes. Fewer runs than commands are
// allowed here, because a job may stop at its first failure.
func (r *SandboxRunResult) checkStatus() error {
	failed := slices.IndexFunc(r.Runs, func(run SandboxRunInfo) bool { return run.ExitCode != 0 })
	switch {
	case r.Status == StatusSuccess && len(r.Runs) == 0:
		return &FieldError{"status", "is success, but nothing ran"}
	case r.Status == StatusSuccess && failed >= 0:
		return &FieldError{"status", fmt.Sprintf("is success, but runs[%d] exited with %d", failed, r.Runs[failed].ExitCode)}
	case r.Status == StatusFailed && failed < 0:
		return &FieldError{"status", "is failed, but every run exited with 0"}
	}
	return nil
}

// checkAgainst checks the result against the request it answers.
func (r *SandboxRunResult) checkAgainst(req *SandboxRunRequest) error {
	if r.EnvInfo.ImageDigest != req.Sandbox.ImageDigest {
		return &FieldError{"env_info.image_digest", "is not the image that was ordered"}
	}
	if len(r.Runs) > len(req.Commands) {
		return &FieldError{"runs", fmt.Sprintf("has %d runs for %d commands", len(r.Runs), len(req.Commands))}
	}

	for i, run := range r.Runs {
		if run.Cmd != req.Commands[i].Cmd {
			return &FieldError{child(item("runs", i), "cmd"), "is not the command that was ordered"}
		}
		last := i == len(r.Runs)-1
		if run.ExitCode != 0 && !req.Commands[i].ContinueOnFail && !last {
			return &FieldError{item("runs", i+1), "ran after a failure that ends the job"}
		}
	}

	if len(r.Runs) == len(req.Commands) {
		return nil
	}

	// With fewer runs than commands, something must have ended the job early.
	switch r.Status {
	case StatusSuccess:
		return &FieldError{"status", "is success, but not every command ran"}
	case StatusFailed:
		i := len(r.Runs) - 1
		if r.Runs[i].ExitCode == 0 || req.Commands[i].ContinueOnFail {
			return &FieldError{"runs", "stop early, but not at a failure that ends the job"}
		}
	}

	return nil
}

// agreement is the part that honest providers of the same job have in common: no
// times, hosts or previews, and artifacts in one order. Standard output counts only
// if the request says so, because tests print times.
func (r *SandboxRunResult) agreement(stdout bool) any {
	type artifact struct {
		Path   string         `json:"path"`
		SHA256 hashing.Digest `json:"sha256"`
	}
	projection := struct {
		Artifacts   []artifact     `json:"artifacts"` // in canonical order
		Commands    []string       `json:"commands"`
		ExitCodes   []int32        `json:"exit_codes"`
		ImageDigest hashing.Digest `json:"image_digest"`
		Status      Status         `json:"status"`

		Stdout []hashing.Digest `json:"stdout_sha256,omitzero"`
	}{
		ImageDigest: r.EnvInfo.ImageDigest,
		Commands:    []string{},
		ExitCodes:   []int32{},
		Artifacts:   []artifact{},
		Status:      r.Status,
	}
	if stdout {
		projection.Stdout = []hashing.Digest{}
	}

	for _, run := range r.Runs {
		projection.Commands = append(projection.Commands, run.Cmd)
		projection.ExitCodes = append(projection.ExitCodes, run.ExitCode)
		if stdout {
			projection.Stdout = append(projection.Stdout, run.StdoutSHA256)
		}
	}

	for _, a := range r.Artifacts {
		projection.Artifacts = append(projection.Artifacts, artifact{a.Path, a.SHA256})
	}
	slices.SortFunc(projection.Artifacts, func(a, b artifact) int { return strings.Compare(a.Path, b.Path) })
	return projection
}

// ExpectationMet reports whether the result is the outcome that the buyer pays
// success for (K-47). If the request states none, every valid result is, unless the
// job was cancelled or the sandbox failed. The reason names the first difference.
func (r *SandboxRunRequest) ExpectationMet(result *SandboxRunResult) (ok bool, reason string) {
	if result.Status == StatusError || result.Status == StatusCancelled {
		return false, "its status is " + string(result.Status)
	}
	expected := r.Verification.Expected
	if expected == nil {
		return true, ""
	}
	if want := expected.ExitCodes; len(want) > 0 {
		if len(result.Runs) != len(want) {
			return false, fmt.Sprintf("%d runs, expected %d", len(result.Runs), len(want))
		}
		for i, code := range want {
			if got := result.Runs[i].ExitCode; got != code {
				return false, fmt.Sprintf("%s exited with %d, expected %d", item("runs", i), got, code)
			}
		}
	}

	got := make(map[string]hashing.Digest, len(result.Artifacts))
	for _, a := range result.Artifacts {
		got[a.Path] = a.SHA256
	}

	for _, name := range slices.Sorted(maps.Keys(expected.Artifacts)) {
		digest, found := got[name]
		if !found {
			return false, child("artifacts", name) + " is missing"
		}
		if digest != expected.Artifacts[name] {
			return false, child("artifacts", name) + " has another digest"
		}
	}

	return true, ""
}

func tooLong(field string, n, limit int) error {
	return &FieldError{field, fmt.Sprintf("is %d bytes, at most %d", n, limit)}
}
