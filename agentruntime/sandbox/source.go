package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/schemas"
)

// bundlePrefix starts a repository source that is a git bundle.
const bundlePrefix = "data:application/x-git-bundle;base64,"

// source is the origin of a job's files: at most one of archive, tree, bundle and url
// is set.
type source struct {
	archive []byte // tar.gz
	tree    string // a file with the same
	bundle  []byte
	url     string
	origin  origin // of url
	commit  string // for bundle and url: the full commit id
}

// parseSource reads repo.source and repo.git_ref. Several providers can agree on a
// result only if they use the same files, so the reference must be a full commit id
// and not a branch or tag, which can move.
func parseSource(repo *schemas.SandboxRepo, opts Options) (*source, error) {
	s := &source{}
	var err error
	switch {
	case repo.Tree != nil:
		if opts.Tree == "" {
			return nil, &RequestError{"repo.tree", "the files are not here"}
		}
		s.tree = opts.Tree
		return s, nil
	case strings.HasPrefix(repo.Source, bundlePrefix):
		s.bundle, err = decodeBundle(repo.Source)
	case strings.HasPrefix(repo.Source, "https://"), strings.HasPrefix(repo.Source, "http://"):
		s.url = repo.Source
		s.origin, err = parseRemote(repo.Source, opts.FetchFrom)
	default:
		s.archive, err = repo.Archive()
		return s, requestError(err)
	}

	if err != nil {
		return nil, &RequestError{"repo.source", err.Error()}
	}
	if !commitID(repo.GitRef) {
		return nil, &RequestError{"repo.git_ref", "must be the full id of a commit, in lower-case hex"}
	}

	s.commit = repo.GitRef
	return s, nil
}

func decodeBundle(text string) ([]byte, error) {
	encoded := strings.TrimPrefix(text, bundlePrefix)
	bundle, err := base64.StdEncoding.Strict().DecodeString(encoded)
	// The decoder skips line breaks, but a bundle must have only one spelling.
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("the bundle is not base64")
	}
	if len(bundle) > maxSourceBytes {
		return nil, fmt.Errorf("is larger than %d bytes", maxSourceBytes)
	}
	return bundle, nil
}

// load makes the source the archive with which the job starts. The time for
// fetching counts as time of the job.
func (j *job) load(ctx context.Context, s *source, opts Options) error {
	if s.tree != "" {
		j.tree, j.plan.Source = s.tree, true
		return nil
	}

	archive := s.archive
	if s.commit != "" {
		ctx, cancel := context.WithTimeout(ctx, j.timeout)
		defer cancel()
		start := time.Now()
		var err error
		if archive, err = fetch(ctx, s, opts); err != nil {
			return err
		}
		j.timeout -= time.Since(start)
	}

	if len(archive) > maxSourceBytes {
		return &RequestError{"repo.source", fmt.Sprintf("is larger than %d bytes", maxSourceBytes)}
	}
	j.source, j.plan.Source = archive, archive != nil
	return nil
}

// CheckRemote reports why a repository may not be fetched from an address; allowed
// is Options.FetchFrom.
func CheckRemote(address string, allowed []string) error {
	_, err := parseRemote(address, allowed)
	return err
}

// commitID accepts SHA-1 and SHA-256 ids.
func commitID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// origin is the one server that a fetch may reach.
type origin struct {
	host  string
	port  string
	plain bool // http, at any address: the operator named the whole origin
}

// parseRemote checks an address against the operator's list of host names (reached
// by https at public addresses only), "*" for every host, and whole origins like
// "http://127.0.0.1:8080".
func parseRemote(text string, allowed []string) (origin, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2048 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return origin{}, fmt.Errorf("is not the address of a repository")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return origin{}, fmt.Errorf("must be a host and a path, without a user, a query or a fragment")
	}

	o := origin{host: strings.ToLower(u.Hostname()), port: u.Port()}
	if u.Scheme == "http" {
		o.plain = true
		if o.port == "" {
			o.port = "80"
		}
	} else if o.port == "" {
		o.port = "443"
	}

	for _, a := range allowed {
		switch {
		case strings.Contains(a, "://"):
			if strings.EqualFold(a, u.Scheme+"://"+u.Host) {
				o.plain = true
				return o, nil
			}
		case (a == "*" || strings.EqualFold(a, o.host)) && u.Scheme == "https" && o.port == "443":
			return o, nil
		}
	}

	return origin{}, fmt.Errorf("repositories of %s://%s are not offered", u.Scheme, u.Host)
}

// Resources of the sandbox that reads a repository.
const (
	fetchMemory  = 512 << 20
	fetchDisk    = 512 << 20
	fetchTimeout = 2 * time.Minute
	maxRootCerts = 4 << 20
)

// fetchScript converts a bundle or a remote to a tar.gz of one commit. Hooks,
// filters, attributes, submodules and configuration of the repository have no
// effect: nothing is checked out, and attributes that change an archive are
// disabled. Git itself compares the objects with the commit's id.
const fetchScript = `set -e
workspace=$PWD
git init -q --bare --template= --object-format="$FORMAT" "$HOME/r"
cd "$HOME/r"
mkdir -p info
echo '* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding' >info/attributes
if [ -n "$REMOTE" ]; then
	git fetch -q --depth=1 --no-tags --no-recurse-submodules --no-auto-gc -- "$REMOTE" "$COMMIT"
else
	git bundle unbundle "$workspace/bundle" >/dev/null
fi
[ "$(git rev-parse --verify -q "$COMMIT^{commit}")" = "$COMMIT" ] || { echo "no commit $COMMIT" >&2; exit 1; }
git archive --format=tar.gz -1 -o "$LIGHTWORK_ARTIFACTS/source.tar.gz" "$COMMIT"
`

// gitSettings restrict git to one server and one protocol, and keep it from
// prompting.
func gitSettings(s *source) []string {
	format, protocol := "sha1", "https"
	if len(s.commit) == 64 {
		format = "sha256"
	}
	if s.origin.plain {
		protocol = "http:https"
	}
	env := []string{
		"PATH=" + searchPath, "HOME=/tmp", "LIGHTWORK_ARTIFACTS=" + artifactMount, "LANG=C.UTF-8", "FORMAT=" + format, "COMMIT=" + s.commit, "REMOTE=" + s.url,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false",
		"GIT_ALLOW_PROTOCOL=" + protocol, "GIT_SSL_CAINFO=/workspace/certificates",
	}
	settings := []string{
		"core.hooksPath=/dev/null", "http.followRedirects=false", "http.proxy=socks5h://" + proxyAddress,
		"http.lowSpeedLimit=1000", "http.lowSpeedTime=20", "credential.helper=", "gc.auto=0", "protocol.version=2",
		"transfer.fsckObjects=true", "fetch.fsckObjects=true", "core.protectHFS=true", "core.protectNTFS=true",
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	for i, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}

	return env
}

// fetch reads a repository in a separate sandbox, which for a remote can reach that
// one server only, and returns the commit's files as a tar.gz. Faults of the
// repository are reported as *RequestError.
func fetch(ctx context.Context, s *source, opts Options) ([]byte, error) {
	if s.url != "" && !opts.Level.hasNamespaces() {
		return nil, &RequestError{"repo.source", "repositories are not fetched at the confinement level " + string(opts.Level) + ": send a bundle or an archive"}
	}
	if _, err := os.Stat("/usr/bin/git"); err != nil {
		return nil, &RequestError{"repo.source", "repositories are not offered: this host has no git"}
	}

	opts.ArtifactDir, opts.Stream = "", nil
	files, err := fetchFiles(s, opts.CAFile)
	if err != nil {
		return nil, fmt.Errorf("fetch repository: %w", err)
	}
	j := &job{
		plan: plan{
			Split: os.Geteuid() == 0, MountPath: "/workspace", Env: gitSettings(s), DiskBytes: fetchDisk, Inodes: minInodes,
			Source: true, Proxy: s.url != "", Loopback: s.url != "",
			Commands: []planCommand{{Cmd: fetchScript, Dir: "/workspace"}},
		},
		source: files, origin: s.origin, timeout: fetchTimeout, keep: true,
		limits: cgroup.Limits{MemoryBytes: fetchMemory + fetchDisk + supervisorMemory, Pids: opts.MaxPids, CPUs: 1},
	}
	out, err := confine(ctx, j, opts)
	if err != nil {
		return nil, err
	}
	return readOutput(ctx, out)
}

// readOutput returns the archive from the sandbox's output.
func readOutput(ctx context.Context, out *outcome) ([]byte, error) {
	switch {
	case ctx.Err() != nil:
		return nil, &RequestError{"repo.source", "fetching took all of the job's time"}
	case out.stopped == stopTimeout:
		return nil, &RequestError{"repo.source", fmt.Sprintf("fetching took longer than %v", fetchTimeout)}
	case out.limit != "":
		return nil, &RequestError{"repo.source", out.limit}
	case len(out.runs) != 1:
		return nil, errors.New("fetch repository: git was not run")
	case out.runs[0].exitCode != 0:
		message := strings.TrimSpace(out.runs[0].stderr.preview(maxFatalText))
		if out.oomKills > 0 {
			message = "out of memory"
		}
		return nil, &RequestError{"repo.source", "git: " + message}
	case len(out.artifacts) != 1:
		return nil, errors.New("fetch repository: the sandbox produced no archive")
	case out.artifacts[0].Size > maxSourceBytes:
		return nil, &RequestError{"repo.source", fmt.Sprintf("its files have more than %d bytes, compressed", maxSourceBytes)}
	}

	return out.artifacts[0].content, nil
}

// fetchFiles packs the input of git: the bundle, or the certificates that this host
// and the operator trust.
func fetchFiles(s *source, caFile string) ([]byte, error) {
	name, content := "bundle", s.bundle
	if s.url != "" {
		name = "certificates"
	}
	if strings.HasPrefix(s.url, "https:") {
		var err error
		if content, err = readCA(caFile); err != nil {
			return nil, err
		}
	}

	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(zw)
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
	if err := tw.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := tw.Write(content); err != nil {
		return nil, err
	}

	err = errors.Join(tw.Close(), zw.Close())
	return buf.Bytes(), err
}

// readCA returns the certificates that the host trusts and those of the operator's
// file; one of the two is enough.
func readCA(caFile string) ([]byte, error) {
	list, err := rootCertificates()
	if caFile == "" {
		return list, err
	}
	own, err := readCertificates(caFile)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	return slices.Concat(list, []byte("\n"), own), nil
}

// CheckAuthorities reports why Options.CAFile cannot be used: it is missing or
// contains no certificate. An empty name is valid.
func CheckAuthorities(caFile string) error {
	if caFile == "" {
		return nil
	}
	list, err := readCertificates(caFile)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(list) {
		return fmt.Errorf("%s contains no certificate", caFile)
	}
	return nil
}

// readCertificates reads a certificate file of bounded length.
func readCertificates(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRootCerts))
}

// rootCertificates reads the first existing file of the usual places.
func rootCertificates() ([]byte, error) {
	for _, path := range []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if list, err := readCertificates(path); err == nil {
			return list, nil
		}
	}
	return nil, errors.New("this host has no root certificates")
}
