package sandbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/schemas"
)

// bundlePrefix begins a repository source that is a git bundle.
const bundlePrefix = "data:application/x-git-bundle;base64,"

// source is where the files of a job come from: at most one of archive, bundle
// and url is set.
type source struct {
	archive []byte // tar.gz
	bundle  []byte
	url     string
	origin  origin // of url
	commit  string // of bundle and url: its full id
}

// parseSource reads repo.source and repo.git_ref. A repository is only useful
// to two parties who must agree on a result if both mean the same files, so
// the reference is the full id of a commit and no name that moves.
func parseSource(repo *schemas.SandboxRepo, opts Options) (*source, error) {
	s := &source{}
	var err error
	switch {
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
	// The decoder skips line breaks; one bundle has one spelling.
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("the bundle is not base64")
	}
	if len(bundle) > MaxSourceBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxSourceBytes)
	}
	return bundle, nil
}

// load makes the source the archive that the job begins with. Fetching counts
// towards the job's time.
func (j *job) load(ctx context.Context, s *source, opts Options) error {
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

	if len(archive) > MaxSourceBytes {
		return &RequestError{"repo.source", fmt.Sprintf("is larger than %d bytes", MaxSourceBytes)}
	}
	j.source, j.plan.Source = archive, archive != nil
	return nil
}

// CheckRemote says why a repository is not fetched from an address; allowed is
// Options.FetchFrom.
func CheckRemote(address string, allowed []string) error {
	_, err := parseRemote(address, allowed)
	return err
}

// commitID accepts SHA-1 and SHA-256 ids.
func commitID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// origin is one server that a fetch may reach.
type origin struct {
	host  string
	port  string
	plain bool // http, and whatever address: the operator named it in full
}

// parseRemote checks an address against what the operator allows: host names,
// reached by https at public addresses only, "*" for every host, or a whole
// origin like "http://127.0.0.1:8080".
func parseRemote(text string, allowed []string) (origin, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2048 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return origin{}, fmt.Errorf("is no address of a repository")
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
