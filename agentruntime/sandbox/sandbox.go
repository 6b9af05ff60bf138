// Package sandbox runs the commands of an oa.sandbox_run.v1 job inside Linux
// namespaces with a read-only system, a sized file system in memory and cgroup
// limits. The network is none, a loopback of the job's own, or a proxy that the
// caller provides.
//
// The confinement is done by a copy of the own program: Run starts
// /proc/self/exe with Options.Init as its arguments, in new user, pid, mount,
// net, ipc and uts namespaces, and that copy, process 1 of the new pid
// namespace, calls Init. Killing it kills everything in the sandbox.
//
// Nothing runs unconfined: where a limit cannot be set, Run refuses with an
// error that is ErrCannotConfine and says what is missing.
package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Limits that no request can raise.
const (
	// MaxOutputBytes is the most one command may write to stdout and stderr
	// together; beyond it the job is killed.
	MaxOutputBytes = 64 << 20
	// MaxPreviewBytes is the most of a stream that a result shows.
	MaxPreviewBytes = 16 << 10
	// MaxArtifacts and MaxArtifactBytes bound what is copied out.
	MaxArtifacts     = 128
	MaxArtifactBytes = 32<<20 - 1<<10 // its box fits a blob of 32 MiB
	// MaxSourceEntries and MaxSourceBytes bound an inline repository: its
	// entries, and the size of the compressed archive.
	MaxSourceEntries = 10_000
	MaxSourceBytes   = 16 << 20
	// previewBudget bounds all previews of one result together, so that even
	// escaped six to one it fits a result's 4 MiB.
	previewBudget = 512 << 10
	// MaxPlanBytes bounds commands and environment together, as JSON.
	MaxPlanBytes = 8 << 20

	maxArtifactPath  = 1024
	defaultDiskMB    = 256
	defaultPids      = 256
	inodesPerMB      = 64
	minInodes        = 16384
	supervisorMemory = 24 << 20 // what process 1 of the sandbox may need for itself
)

// Errors of this package. A *ConfineError is ErrCannotConfine, a
// *RequestError is ErrRequest.
var (
	// ErrCannotConfine: this machine cannot set a limit that every job needs.
	ErrCannotConfine = errors.New("cannot confine")
	// ErrRequest: the request asks for something that the sandbox does not do.
	ErrRequest = errors.New("bad sandbox request")
	// ErrSandboxDied: process 1 of the sandbox ended without a report.
	ErrSandboxDied = errors.New("sandbox died")
)

// ConfineError names every confinement that could not be set up.
type ConfineError struct{ Missing []string }

func (e *ConfineError) Error() string {
	return fmt.Sprintf("%v: %s", ErrCannotConfine, strings.Join(e.Missing, "; "))
}

// Is makes errors.Is(err, ErrCannotConfine) true.
func (e *ConfineError) Is(target error) bool { return target == ErrCannotConfine }

// RequestError names the request field that cannot be honoured.
type RequestError struct{ Field, Reason string }

func (e *RequestError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrRequest, e.Field, e.Reason)
}

// Is makes errors.Is(err, ErrRequest) true.
func (e *RequestError) Is(target error) bool { return target == ErrRequest }

// Options say how jobs run on this machine. Init is required.
type Options struct {
	// Init are the arguments, with the program's name first, that make the
	// own program call Init, for example {"lightwork", "agent", "sandbox-init"}.
	Init []string
	// ArtifactDir is an existing directory that receives each artifact under
	// the hex SHA-256 of its bytes. Empty: artifacts are hashed, not kept.
	ArtifactDir string
	// ImageDir is where the operator registered images (package images), the
	// root file systems of jobs with provider "docker". Empty: there are none.
	ImageDir string
	// FetchFrom are the servers that repositories may be fetched from: host
	// names, reached by https at public addresses; "*" for every host; or an
	// origin like "http://127.0.0.1:8080", which is not looked at any further.
	// Empty: a job brings its files in the request.
	FetchFrom []string
	// CAFile holds certificates (PEM) of authorities that a server of FetchFrom
	// may have its own from, beside those that this host trusts. Empty: none.
	CAFile string
	// Network is what jobs with the network policy "full" get. Zero: they are
	// refused.
	Network Network
	// Level is how firmly jobs are confined; a machine that cannot do it runs
	// none. Empty: LevelFull.
	Level Level
	// WorkDir is where jobs at LevelLandlock have their files, each in a folder
	// of its own that goes with it. Empty: the folder for temporary files.
	WorkDir string
	// CgroupRoot is where cgroup file systems are mounted. Empty:
	// /sys/fs/cgroup.
	CgroupRoot string
	// MaxPids bounds the processes and threads of a job, including the few of
	// process 1. Zero: 256.
	MaxPids int
	// Stream receives output as it is written: channel is "stdout" or
	// "stderr", text is valid UTF-8. It is called from one goroutine and holds
	// the job up while it runs. Nil: no streaming.
	Stream func(channel, text string)
	// Logger receives what an operator should know. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Init) == 0 {
		return o, errors.New("sandbox options: Init is empty")
	}
	if o.Level == "" {
		o.Level = LevelFull
	}
	if _, err := ParseLevel(string(o.Level)); err != nil {
		return o, fmt.Errorf("sandbox options: Level %w", err)
	}
	if o.WorkDir == "" {
		o.WorkDir = os.TempDir()
	}
	if o.CgroupRoot == "" {
		o.CgroupRoot = "/sys/fs/cgroup"
	}
	if o.MaxPids == 0 {
		o.MaxPids = defaultPids
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
