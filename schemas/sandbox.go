package schemas

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/tree"
)

// Limits of oa.sandbox_run.v1, in bytes where a size is meant.
const (
	MaxCommands      = 64
	MaxCommandBytes  = 8 << 10
	MaxEnvValueBytes = 32 << 10
	MaxPreviewBytes  = 16 << 10
	MaxArtifacts     = 128
	MaxPathBytes     = 1024
)

// The sandbox providers.
const (
	DockerProvider = "docker" // image_digest names an image the provider registered
	HostProvider   = "host"   // image_digest is the digest of the host toolchain's manifest
)

// Prefixes of repository sources that are inside the request: a gzipped tar archive
// and a git bundle. Any other source is the address of a repository.
const (
	archivePrefix = "data:application/gzip;base64,"
	bundlePrefix  = "data:application/x-git-bundle;base64,"
)

// SandboxRunRequest is the input of oa.sandbox_run.v1.
type SandboxRunRequest struct {
	Sandbox      Sandbox             `json:"sandbox" jsonschema:"what confines the commands"`
	Repo         SandboxRepo         `json:"repo" jsonschema:"files the commands see" rule:"default={}"`
	Commands     []SandboxCommand    `json:"commands" jsonschema:"commands, run in order" rule:"minitems=1;maxitems=64"`
	Env          map[string]string   `json:"env,omitempty" jsonschema:"environment variables" rule:"maxprops=64;names=env;each.maxlen=32768"`
	Verification SandboxVerification `json:"verification" jsonschema:"how the result is judged"`
}

// Sandbox describes the confinement.
type Sandbox struct {
	Provider      string           `json:"provider" jsonschema:"docker (a registered image) or host (the host's toolchain)" rule:"enum=docker|host;default=docker"`
	ImageDigest   hashing.Digest   `json:"image_digest" jsonschema:"digest of the image, or of the host toolchain's manifest"`
	NetworkPolicy string           `json:"network_policy" jsonschema:"network the commands may reach" rule:"enum=none|localhost|full;default=none"`
	Resources     SandboxResources `json:"resources" jsonschema:"limits" rule:"default={}"`
}

// SandboxResources are limits. The buyer chose them, so a run that reaches one is
// charged.
type SandboxResources struct {
	MemoryMB    int64   `json:"memory_mb" jsonschema:"memory, MiB" rule:"min=16;max=65536;default=512"`
	CPUs        float64 `json:"cpus" jsonschema:"processors" rule:"xmin=0;max=256;default=1"`
	TimeoutSecs int64   `json:"timeout_secs" jsonschema:"wall time of the whole job, seconds" rule:"min=1;max=3600;default=60"`
	DiskMB      int64   `json:"disk_mb,omitempty" jsonschema:"disk, MiB" rule:"min=1;max=1048576"`
}

// SandboxRepo says which files the commands see.
type SandboxRepo struct {
	Source string `json:"source" jsonschema:"empty; data:application/gzip;base64, with a tar archive; data:application/x-git-bundle;base64, with a git bundle; or the https address of a git repository" rule:"default="`
	// Tree is what the source is when it is too large for the request.
	Tree      *tree.Manifest `json:"tree,omitempty" jsonschema:"instead of source: files on the provider's blob server, as encrypted chunks"`
	GitRef    string         `json:"git_ref,omitempty" jsonschema:"full commit id, 40 or 64 lower-case hex digits; required with a bundle or an address" rule:"minlen=1;maxlen=256"`
	MountPath string         `json:"mount_path" jsonschema:"absolute path of the files in the sandbox" rule:"minlen=1;maxlen=1024;default=/workspace"`
}

// SandboxCommand is one command, run by a shell.
type SandboxCommand struct {
	Cmd            string `json:"cmd" jsonschema:"command line" rule:"minlen=1;maxlen=8192"`
	Workdir        string `json:"workdir,omitempty" jsonschema:"directory, absolute or below mount_path" rule:"minlen=1;maxlen=1024"`
	ContinueOnFail bool   `json:"continue_on_fail" jsonschema:"run the next command even if this one fails" rule:"default=false"`
}

// SandboxVerification adds to Verification the conditions of an objective job.
type SandboxVerification struct {
	Verification
	Expected      *Expected `json:"expected,omitempty" jsonschema:"outcome that alone releases the success payment"`
	CompareStdout bool      `json:"compare_stdout,omitempty" jsonschema:"whether results of several providers agree only if the commands printed the same to standard output"`
}

// Expected states the outcome a buyer pays success for (K-47).
type Expected struct {
	ExitCodes []int32                   `json:"exit_codes,omitempty" jsonschema:"exit code of every run, in order" rule:"minitems=1;maxitems=64"`
	Artifacts map[string]hashing.Digest `json:"artifacts,omitempty" jsonschema:"digest of each artifact that must exist, by path" rule:"minprops=1;maxprops=128"`
}

// check checks the rules that JSON Schema cannot express.
func (r *SandboxRunRequest) check() error {
	if err := r.Repo.check(); err != nil {
		return err
	}

	for i, c := range r.Commands {
		at := item("commands", i)
		if err := text(child(at, "cmd"), c.Cmd, MaxCommandBytes); err != nil {
			return err
		}
		if err := workdir(child(at, "workdir"), c.Workdir); err != nil {
			return err
		}
	}

	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		if err := text(child("env", name), r.Env[name], MaxEnvValueBytes); err != nil {
			return err
		}
	}
	return r.checkExpected()
}

func (r *SandboxRunRequest) checkExpected() error {
	expected := r.Verification.Expected
	if expected == nil {
		return nil
	}
	const field = "verification.expected"
	if len(expected.ExitCodes) == 0 && len(expected.Artifacts) == 0 {
		return &FieldError{field, "states no exit_codes and no artifacts"}
	}
	if n := len(expected.ExitCodes); n > len(r.Commands) {
		return &FieldError{field + ".exit_codes", fmt.Sprintf("has %d entries for %d commands", n, len(r.Commands))}
	}

	for _, name := range slices.Sorted(maps.Keys(expected.Artifacts)) {
		if err := relativePath(child(field+".artifacts", name), name); err != nil {
			return err
		}
	}

	return nil
}

func (r *SandboxRepo) check() error {
	if err := r.checkSource(); err != nil {
		return err
	}
	if err := text("repo.mount_path", r.MountPath, MaxPathBytes); err != nil {
		return err
	}
	if !path.IsAbs(r.MountPath) || path.Clean(r.MountPath) != r.MountPath || r.MountPath == "/" {
		return &FieldError{"repo.mount_path", "must be a clean absolute path below /"}
	}
	return nil
}

func (r *SandboxRepo) checkSource() error {
	if r.Tree != nil {
		if r.Source != "" {
			return &FieldError{"repo.tree", "cannot be given together with a source"}
		}
		if bad := (*tree.ManifestError)(nil); errors.As(r.Tree.Check(), &bad) {
			return &FieldError{"repo.tree." + bad.Field, bad.Reason}
		}
	}

	_, isURL := r.URL()
	if !isURL && !strings.HasPrefix(r.Source, bundlePrefix) {
		if _, err := r.Archive(); err != nil {
			return err
		}
		// Without this the reference would be ignored while the buyer pays.
		if r.GitRef != "" {
			return &FieldError{"repo.git_ref", "has no meaning without a git repository"}
		}
		return nil
	}

	// A branch or tag can move between two runs, and then two providers that both
	// ran the job could not agree.
	if n := len(r.GitRef); n != 40 && n != 64 || strings.Trim(r.GitRef, "0123456789abcdef") != "" {
		return &FieldError{"repo.git_ref", "must be the full id of a commit, in lower-case hex"}
	}
	if isURL {
		return r.checkURL()
	}

	encoded := strings.TrimPrefix(r.Source, bundlePrefix)
	if _, err := base64.StdEncoding.Strict().DecodeString(encoded); err != nil || strings.ContainsAny(encoded, "\r\n") {
		return &FieldError{"repo.source", "bundle is not base64"}
	}
	return nil
}

// URL returns the address of the repository, if the source is one.
func (r *SandboxRepo) URL() (address string, ok bool) {
	return r.Source, strings.HasPrefix(r.Source, "https://") || strings.HasPrefix(r.Source, "http://")
}

// addressForm is an address with a host and a path, and nothing else. The published
// schema has it too, so buyers and nodes accept the same addresses.
const addressForm = `https?://([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/+([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*`

// maxAddress bounds an address, in characters.
const maxAddress = 2048

var isAddress = regexp.MustCompile(`^` + addressForm + `$`).MatchString

func (r *SandboxRepo) checkURL() error {
	if len(r.Source) > maxAddress || !isAddress(r.Source) {
		return &FieldError{"repo.source", "must be a host and a path, without a user, a query or a fragment; other characters are written as %XX"}
	}
	return nil
}

// Patterns of the published schema.
const (
	base64Form = `([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?`
	// Base64 of data that begins with 0x1f 0x8b, the magic number of gzip.
	gzipForm = `(H4s=|H4[s-v][A-Za-z0-9+/]` + base64Form + `)`
	// A part of a clean path, which is not empty and neither "." nor "..".
	partForm = `([^/.\x00][^/\x00]*|\.[^/.\x00][^/\x00]*|\.\.[^/\x00]+)`
)

// publishSandbox adds the rules of check to the published schema of requests, so that
// a buyer's validator refuses what a node would refuse. JSON Schema cannot express
// sizes in bytes and the number of expected exit codes.
func publishSandbox(s *jsonschema.Schema) {
	length, least := maxAddress, 1
	begins := func(with string) *jsonschema.Schema {
		return &jsonschema.Schema{Required: []string{"source"}, Properties: map[string]*jsonschema.Schema{"source": {Pattern: with}}}
	}
	repo := s.Properties["repo"]
	repo.Properties["source"].Pattern = `^(|` + archivePrefix + gzipForm + `|` + bundlePrefix + base64Form + `|` + addressForm + `)$`
	repo.Properties["mount_path"].Pattern = `^(/` + partForm + `)+$`

	repo.AllOf = []*jsonschema.Schema{
		{
			If: begins(`^(https?://|` + bundlePrefix + `)`),
			Then: &jsonschema.Schema{
				Required:   []string{"git_ref"},
				Properties: map[string]*jsonschema.Schema{"git_ref": {Pattern: `^([0-9a-f]{40}|[0-9a-f]{64})$`}},
			},
			Else: &jsonschema.Schema{Not: &jsonschema.Schema{Required: []string{"git_ref"}}},
		},
		{If: &jsonschema.Schema{Required: []string{"tree"}}, Then: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"source": {Pattern: `^$`}}}},
		{If: begins(`^https?://`), Then: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"source": {MaxLength: &length}}}},
	}
	relative := `^` + partForm + `(/` + partForm + `)*$`
	command := s.Properties["commands"].Items
	command.Properties["cmd"].Pattern = `^[^\x00]*$`
	command.Properties["workdir"].Pattern = `^(/[^\x00]*|` + partForm + `(/` + partForm + `)*)$`
	s.Properties["env"].AdditionalProperties.Pattern = `^[^\x00]*$`
	expected := s.Properties["verification"].Properties["expected"]
	expected.MinProperties = &least
	expected.Properties["artifacts"].PropertyNames = &jsonschema.Schema{Pattern: relative}
}

// Archive returns the gzipped tar archive of an inline source, nil if the
// source is empty. It does not look inside: the archive is hostile until it
// is unpacked within the sandbox. The error is a *[FieldError].
func (r *SandboxRepo) Archive() ([]byte, error) {
	if r.Source == "" {
		return nil, nil
	}
	encoded, ok := strings.CutPrefix(r.Source, archivePrefix)
	if !ok {
		return nil, &FieldError{"repo.source", "must be an inline archive, an inline git bundle, or the https address of a repository"}
	}
	archive, err := base64.StdEncoding.Strict().DecodeString(encoded)

	// The decoder skips line breaks, and they would give one archive two hashes.
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, &FieldError{"repo.source", "inline archive is not base64"}
	}
	if !bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
		return nil, &FieldError{"repo.source", "inline archive is not gzip"}
	}

	return archive, nil
}

// InlineArchive returns the repo.source that carries a gzipped tar archive.
func InlineArchive(archive []byte) string {
	return archivePrefix + base64.StdEncoding.EncodeToString(archive)
}

// CheckSource decides whether this provider can get the repository. fetches reports
// whether it would fetch an address; nil means that it fetches none. The error is a
// *[FieldError].
func (r *SandboxRunRequest) CheckSource(fetches func(address string) bool) error {
	if address, ok := r.Repo.URL(); ok && (fetches == nil || !fetches(address)) {
		return &FieldError{"repo.source", "this provider fetches no repositories from there; send a bundle or an archive"}
	}
	return nil
}

// CheckNetwork decides whether this provider offers the network that the request
// wants. full says that it sells the policy "full". The error is a *[FieldError].
func (r *SandboxRunRequest) CheckNetwork(full bool) error {
	if r.Sandbox.NetworkPolicy == "full" && !full {
		return &FieldError{"sandbox.network_policy", `this provider does not offer "full"; ask for "localhost" or "none"`}
	}
	return nil
}

// CheckImage decides whether this provider can run the request: a docker image
// must be registered here, and a host run must name the digest of this host's
// toolchain manifest ("sha256:<hex>"; empty if the node offers no host runs).
// The error is a *[FieldError].
func (r *SandboxRunRequest) CheckImage(hostDigest string, registered func(digest string) bool) error {
	const field = "sandbox.image_digest"
	digest := r.Sandbox.ImageDigest.String()
	switch r.Sandbox.Provider {
	case DockerProvider:
		if registered == nil || !registered(digest) {
			return &FieldError{field, "image is not registered with this provider"}
		}
	case HostProvider:
		if hostDigest == "" {
			return &FieldError{"sandbox.provider", "this provider offers no host runs"}
		}
		if digest != hostDigest {
			return &FieldError{field, "is not the digest of this host's toolchain manifest"}
		}
	default:
		return &FieldError{"sandbox.provider", oneOf([]string{DockerProvider, HostProvider})}
	}

	return nil
}

// text bounds a string in bytes and refuses NUL. The operating system ends strings at
// a NUL, so it would run something other than what the buyer signed.
func text(field, s string, limit int) error {
	if len(s) > limit {
		return &FieldError{field, fmt.Sprintf("is %d bytes, at most %d", len(s), limit)}
	}
	if strings.IndexByte(s, 0) >= 0 {
		return &FieldError{field, "contains a NUL byte"}
	}
	return nil
}

// workdir accepts no directory, an absolute one, or one below mount_path.
func workdir(field, dir string) error {
	if dir == "" || path.IsAbs(dir) {
		return text(field, dir, MaxPathBytes)
	}
	return relativePath(field, dir)
}

// relativePath accepts a clean relative path that stays below its root.
func relativePath(field, p string) error {
	if err := text(field, p, MaxPathBytes); err != nil {
		return err
	}
	if p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return &FieldError{field, "must be a clean relative path without .."}
	}
	return nil
}
