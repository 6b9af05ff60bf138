// Package sandbox runs the commands of an oa.sandbox_run.v1 job inside Linux
// namespaces, with a read-only system, an in-memory file system of limited size,
// and cgroup limits. A job has no network, a loopback device of its own, or a proxy
// operated by this package.
//
// A copy of this program sets up the confinement: Run starts /proc/self/exe with
// Options.Init as its arguments in new user, pid, mount, net, ipc and uts
// namespaces. The copy, process 1 of the new pid namespace, calls Init. Killing it
// kills everything in the sandbox.
//
// No command runs unconfined: if a limit cannot be set, Run returns an error that
// is ErrCannotConfine and says what is missing.
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
	// maxOutputBytes bounds the stdout and stderr of one command together; a job
	// that exceeds it is killed.
	maxOutputBytes = 64 << 20
	// maxPreviewBytes bounds the part of a stream that a result shows.
	maxPreviewBytes = 16 << 10
	// maxArtifacts and maxArtifactBytes bound the artifacts of a job.
	maxArtifacts     = 128
	maxArtifactBytes = 32<<20 - 1<<10 // a sealed artifact fits a blob of 32 MiB
	// maxSourceEntries and maxSourceBytes bound an inline repository: the number of
	// entries, and the size of the compressed archive.
	maxSourceEntries = 10_000
	maxSourceBytes   = 16 << 20
	// previewBudget bounds all previews of a result together, so that the result
	// stays below 4 MiB even if escaping makes six bytes of each.
	previewBudget = 512 << 10
	// maxPlanBytes bounds commands and environment together, as JSON.
	maxPlanBytes = 8 << 20

	maxArtifactPath  = 1024
	defaultDiskMB    = 256
	defaultPids      = 256
	inodesPerMB      = 64
	inodeBytes       = 2 << 10 // of memory that a file takes besides its content
	minInodes        = 16384
	supervisorMemory = 24 << 20 // for process 1 of the sandbox
)

// Errors of this package. A *ConfineError is ErrCannotConfine, a
// *RequestError is ErrRequest.
var (
	// ErrCannotConfine: this machine cannot enforce a required limit.
	ErrCannotConfine = errors.New("cannot confine")
	// ErrRequest: the sandbox does not support the request.
	ErrRequest = errors.New("bad sandbox request")
	// ErrSandboxDied: process 1 of the sandbox ended without a report.
	ErrSandboxDied = errors.New("sandbox died")
)

// ConfineError lists the parts of the confinement that could not be set up.
type ConfineError struct{ Missing []string }

func (e *ConfineError) Error() string {
	return fmt.Sprintf("%v: %s", ErrCannotConfine, strings.Join(e.Missing, "; "))
}

// Is makes errors.Is(err, ErrCannotConfine) true.
func (e *ConfineError) Is(target error) bool { return target == ErrCannotConfine }

// RequestError names the field of the request that cannot be honoured.
type RequestError struct{ Field, Reason string }

func (e *RequestError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrRequest, e.Field, e.Reason)
}

// Is makes errors.Is(err, ErrRequest) true.
func (e *RequestError) Is(target error) bool { return target == ErrRequest }

// Options configure jobs on this machine. Init is required.
type Options struct {
	// Init is the command line, starting with the program's name, with which this
	// program calls [Init], such as {"lightwork", "agent", "sandbox-init"}.
	Init []string
	// ArtifactDir is an existing directory in which each artifact is stored under
	// the hex SHA-256 of its bytes. If it is empty, artifacts are hashed but not
	// stored.
	ArtifactDir string
	// Tree is the file with the packed tree of the request, a tar.gz; empty if the request
	// names none.
	Tree string
	// ImageDir is the store of registered images (package images), the root file
	// systems of jobs with provider "docker". If it is empty, there are none.
	ImageDir string
	// FetchFrom lists the servers from which repositories may be fetched: host
	// names, reached by https at public addresses; "*" for every host; or an origin
	// like "http://127.0.0.1:8080", which is used without further checks. If it is
	// empty, jobs must bring their files in the request.
	FetchFrom []string
	// CAFile has PEM certificates of authorities that are trusted for the servers
	// of FetchFrom, in addition to those that this host trusts. It may be empty.
	CAFile string
	// Network is the network of jobs with the network policy "full". If it is zero,
	// such jobs are refused.
	Network Network
	// Level is the level of confinement; if the machine does not support it, no
	// jobs run. Empty means LevelFull.
	Level Level
	// WorkDir holds the files of jobs at LevelLandlock, each in a folder that is
	// removed with the job. Empty means the folder for temporary files.
	WorkDir string
	// CgroupRoot is the mount point of the cgroup file systems. Empty means
	// /sys/fs/cgroup.
	CgroupRoot string
	// MaxPids bounds the processes and threads of a job, including the few of
	// process 1. Zero means 256.
	MaxPids int
	// Stream receives output as it is written: channel is "stdout" or "stderr",
	// text is valid UTF-8. It is called from one goroutine and delays the job while
	// it runs. If it is nil, output is not streamed.
	Stream func(channel, text string)
	// Logger receives messages for the operator. If it is nil, nothing is logged.
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
