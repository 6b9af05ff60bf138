package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/schemas"
)

// program identifies this sandbox in the provenance of results.
const program = "lightwork-sandbox@1.0.0"

// Result is a sandbox_run result without the provider's key: its JSON has no
// provider_pubkey.
type Result struct {
	schemas.SandboxRunResult
	Provenance Provenance `json:"provenance"`
}

// Provenance describes how a result was made.
type Provenance struct {
	ModelID    string `json:"model_id"`
	ExecutedAt int64  `json:"executed_at"` // unix seconds
	DurationMS int64  `json:"duration_ms"`
}

// Run executes a request whose defaults are filled in, as by schemas.ParseRequest.
// A command that fails, a timeout and a canceled ctx give results. Errors are
// *ConfineError (caused by this machine), *RequestError (caused by this request),
// or ErrSandboxDied. After an error, nothing remains but possibly complete files in
// Options.ArtifactDir.
//
// The memory limit covers processes; files in the sandbox need further memory, up
// to disk_mb. A provider must have both available. A repository is read before the
// job, in a separate sandbox that needs up to a gibibyte.
func Run(ctx context.Context, req *schemas.SandboxRunRequest, opts Options) (*Result, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	image, err := rootOf(req, opts)
	if err != nil {
		return nil, err
	}
	source, err := parseSource(&req.Repo, opts)
	if err != nil {
		return nil, err
	}
	if err := opts.Level.honours(req); err != nil {
		return nil, err
	}

	j, err := compile(req, opts.Network)
	if err != nil {
		return nil, err
	}
	j.plan.Image = image
	j.limits.Pids = opts.MaxPids
	start := time.Now()
	out, err := execute(ctx, j, source, opts)
	if err != nil {
		return nil, err
	}
	return result(req, out, start), nil
}

// execute loads the source and runs the job.
func execute(ctx context.Context, j *job, s *source, opts Options) (*outcome, error) {
	err := j.load(ctx, s, opts)
	if err == nil {
		return confine(ctx, j, opts)
	}
	if ctx.Err() != nil {
		return &outcome{stopped: stopOf(ctx)}, nil
	}
	return nil, err
}

func requestError(err error) error {
	var fe *schemas.FieldError
	if errors.As(err, &fe) {
		return &RequestError{fe.Field, fe.Reason}
	}
	return err
}

// honours refuses requests that the level cannot satisfy.
func (l Level) honours(req *schemas.SandboxRunRequest) error {
	switch policy := req.Sandbox.NetworkPolicy; {
	case l.hasNamespaces():
		return nil
	case policy != "none":
		return &RequestError{"sandbox.network_policy", fmt.Sprintf("%q is not offered at the confinement level %s, where jobs have no network of their own", policy, l)}
	case req.Sandbox.Provider != schemas.HostProvider:
		return &RequestError{"sandbox.provider", fmt.Sprintf("images are not offered at the confinement level %s, where jobs have no file system of their own", l)}
	}
	return nil
}

// compile converts a request to a job. It refuses what cannot be honoured instead
// of running something else.
func compile(req *schemas.SandboxRunRequest, network Network) (*job, error) {
	full := req.Sandbox.NetworkPolicy == "full"
	if full && network.Bytes == 0 {
		return nil, &RequestError{"sandbox.network_policy", `"full" is not offered (setting sandbox.full_network_mb)`}
	}
	var web map[string]string
	if full {
		web = webEnvironment(req.Sandbox.Provider == schemas.HostProvider)
	}
	res := req.Sandbox.Resources
	disk := res.DiskMB
	if disk == 0 {
		disk = defaultDiskMB
	}
	j := &job{
		plan: plan{
			Split: os.Geteuid() == 0, MountPath: req.Repo.MountPath, Env: environment(req.Env, web),
			DiskBytes: disk << 20, Inodes: max(minInodes, disk*inodesPerMB),
			Loopback: req.Sandbox.NetworkPolicy != "none", Proxy: full, Certificates: full,
			// Results of several providers are compared by their artifacts. A
			// summary would make them differ, because it also covers files with
			// times in them, such as caches.
			Summary: req.Verification.Redundancy < 2,
		},
		limits:  cgroup.Limits{MemoryBytes: (res.MemoryMB+disk)<<20 + supervisorMemory, CPUs: res.CPUs},
		network: network,
		timeout: time.Duration(res.TimeoutSecs) * time.Second,
	}

	if t := req.Repo.Tree; t != nil {
		j.plan.Entries = t.Entries
		j.plan.Inodes += 2 * t.Entries
		j.limits.MemoryBytes += t.Entries * inodeBytes
	}

	switch policy := req.Sandbox.NetworkPolicy; policy {
	case "none", "localhost", "full":
	default:
		return nil, &RequestError{"sandbox.network_policy", fmt.Sprintf("%q is not offered", policy)}
	}

	if err := checkMountPath(j.plan.MountPath); err != nil {
		return nil, &RequestError{"repo.mount_path", err.Error()}
	}

	for i, c := range req.Commands {
		dir, err := workdir(j.plan.MountPath, c.Workdir)
		if err != nil {
			return nil, &RequestError{fmt.Sprintf("commands[%d].workdir", i), err.Error()}
		}
		j.plan.Commands = append(j.plan.Commands, planCommand{c.Cmd, dir, c.ContinueOnFail})
	}

	return j, nil
}

// workdir returns a directory at or below the mount path, /tmp or /artifacts.
func workdir(mountPath, dir string) (string, error) {
	if !path.IsAbs(dir) {
		dir = path.Join(mountPath, dir)
	}
	dir = path.Clean(dir)
	for _, top := range []string{mountPath, "/tmp", artifactMount} {
		if dir == top || strings.HasPrefix(dir, top+"/") {
			return dir, nil
		}
	}
	return "", errors.New("leaves the workspace")
}

// environment is the complete environment of the commands; nothing is inherited
// from the agent. The request may set everything except the folder for artifacts.
// web has the variables of a job with a proxy.
func environment(env, web map[string]string) []string {
	all := map[string]string{"PATH": searchPath, "HOME": "/tmp", "LANG": "C.UTF-8"}
	maps.Copy(all, web)
	for name, value := range env {
		all[name] = value
	}
	all["LIGHTWORK_ARTIFACTS"] = artifactMount
	list := make([]string, 0, len(all))
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

func result(req *schemas.SandboxRunRequest, out *outcome, start time.Time) *Result {
	r := &Result{Provenance: Provenance{
		ModelID: program, ExecutedAt: start.Unix(), DurationMS: time.Since(start).Milliseconds(),
	}}
	r.EnvInfo = schemas.SandboxEnv{ImageDigest: req.Sandbox.ImageDigest, Hostname: "sandbox", SystemInfo: systemInfo(req.Sandbox.Provider, out)}
	r.Runs, r.Artifacts = []schemas.SandboxRunInfo{}, []schemas.SandboxArtifact{}

	room := min(maxPreviewBytes, previewBudget/(2*len(req.Commands)))
	for _, run := range out.runs {
		r.Runs = append(r.Runs, schemas.SandboxRunInfo{
			Cmd: run.cmd, ExitCode: int32(run.exitCode), DurationMS: run.durationMs,
			StdoutSHA256: run.stdout.digest(), StderrSHA256: run.stderr.digest(),
			StdoutPreview: run.stdout.preview(room), StderrPreview: run.stderr.preview(room),
		})
	}

	for _, a := range out.artifacts {
		r.Artifacts = append(r.Artifacts, schemas.SandboxArtifact{
			Path: a.Path, SHA256: a.Digest, SizeBytes: a.Size, MimeType: a.MIME,
		})
	}

	r.Status, r.Error = status(req, out)
	return r
}

// status follows the exit codes, unless a limit or the caller ended the job.
func status(req *schemas.SandboxRunRequest, out *outcome) (schemas.Status, string) {
	memory := ""
	if out.oomKills > 0 {
		memory = fmt.Sprintf("out_of_memory: the kernel killed %d process(es) at the memory limit of %d MiB (and %s for files)",
			out.oomKills, req.Sandbox.Resources.MemoryMB, diskText(req))
	}

	failed := slices.IndexFunc(out.runs, func(r *commandRun) bool { return r.exitCode != 0 }) >= 0
	switch {
	case out.stopped == stopTimeout:
		return schemas.StatusTimeout, fmt.Sprintf("timeout: stopped after %d s", req.Sandbox.Resources.TimeoutSecs)
	case out.stopped == stopCancelled:
		return schemas.StatusCancelled, "cancelled"
	case out.limit != "" && (out.stopped == stopLimit || !failed):
		return schemas.StatusError, out.limit
	case out.limit != "":
		return schemas.StatusFailed, out.limit
	case !failed && len(out.runs) == 0:
		return schemas.StatusError, memory
	case !failed:
		return schemas.StatusSuccess, memory
	}

	// A command that is allowed to fail does not end the job; if the job ended
	// there, the sandbox died.
	if n := len(out.runs); n < len(req.Commands) && req.Commands[n-1].ContinueOnFail {
		return schemas.StatusError, memory
	}
	return schemas.StatusFailed, memory
}

func diskText(req *schemas.SandboxRunRequest) string {
	if mb := req.Sandbox.Resources.DiskMB; mb != 0 {
		return fmt.Sprintf("%d MiB", mb)
	}
	return fmt.Sprintf("%d MiB", defaultDiskMB)
}

// systemInfo describes the system and the confinement of the commands, and nothing
// else about the host.
func systemInfo(provider string, out *outcome) string {
	if out.level == "" {
		return "nothing ran"
	}
	kernel := "unknown"
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	root := "the host's toolchain"
	if provider != schemas.HostProvider {
		root = "a registered root file system, no docker"
	}
	landlock := "no landlock"
	if out.walls.Landlock > 0 {
		landlock = fmt.Sprintf("landlock %d", out.walls.Landlock)
	}
	limits := "rlimits and a watchdog, no cgroups"
	if out.level == LevelFull {
		limits = fmt.Sprintf("cgroup v%d", out.version)
	}
	namespaces := "no namespaces"
	if out.level.hasNamespaces() {
		namespaces = "user, pid, mount, net, ipc, uts, cgroup namespaces"
	}

	return fmt.Sprintf("linux %s %s; %s; confinement %s: %s; %s; seccomp; %s",
		kernel, runtime.GOARCH, root, out.level, limits, namespaces, landlock)
}
