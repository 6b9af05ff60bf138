package sandbox

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/schemas"
)

// repository is a git repository full of what should have no effect.
type repository struct {
	dir    string
	commit string // the first of two
	tip    string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	require(t, "git")
	r := repository{dir: filepath.Join(t.TempDir(), "r.git")}
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=n", "-c", "user.email=e@e", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("dir/file", "one\r\n$Id$ $Format:%H$\n", 0o644)
	write("run.sh", "#!/bin/sh\necho ran\n", 0o755)
	write(".gitattributes", "dir/file text eol=lf ident export-subst filter=evil working-tree-encoding=UTF-16\nrun.sh export-ignore\n", 0o644)
	write(".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ext::sh -c touch% /tmp/evil\n", 0o644)
	git("init", "-q")
	for path, text := range map[string]string{"dir/file": "one\r\n$Id$ $Format:%H$\n"} {
		write("raw", text, 0o644)
		git("update-index", "--add", "--cacheinfo", "100644,"+git("hash-object", "-w", "--no-filters", "raw")+","+path)
	}
	if err := os.Remove(filepath.Join(r.dir, "raw")); err != nil {
		t.Fatal(err)
	}
	git("add", "run.sh", ".gitattributes", ".gitmodules")
	git("commit", "-q", "-m", "first")
	r.commit = git("rev-parse", "HEAD")
	write("later", "", 0o644)
	git("add", "later")
	git("commit", "-q", "-m", "second")
	r.tip = git("rev-parse", "HEAD")
	return r
}

func (r repository) bundle(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle")
	if out, err := exec.Command("git", append([]string{"-C", r.dir, "bundle", "create", "-q", file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bundlePrefix + base64.StdEncoding.EncodeToString(content)
}

// handler offers the repository by http.
func (r repository) handler(t *testing.T) http.Handler {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Stderr: io.Discard,
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
}

// serve offers the repository by http and counts requests.
func (r repository) serve(t *testing.T) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	handler := r.handler(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		handler.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// gitRequest names a repository: what the schema's parser does not let through
// yet.
func gitRequest(t *testing.T, source, ref string, list ...string) *schemas.SandboxRunRequest {
	t.Helper()
	req := request(t, map[string]any{"commands": commands(list...)}).Value.(*schemas.SandboxRunRequest)
	req.Repo.Source, req.Repo.GitRef = source, ref
	return req
}

const showFiles = `find . -type f | sort; cat dir/file; ./run.sh; ls /tmp /artifacts; stat -c %u dir`

func checkFiles(t *testing.T, r *Result) {
	t.Helper()
	want := "./.gitattributes\n./.gitmodules\n./dir/file\n./run.sh\none\r\n$Id$ $Format:%H$\nran\n/artifacts:\n\n/tmp:\n65534\n"
	if r.Status != schemas.StatusSuccess || r.Runs[0].StdoutPreview != want {
		t.Errorf("%s\n%q\n%s", r.Status, r.Runs[0].StdoutPreview, r.Runs[0].StderrPreview)
	}
}

func TestSourceIsABundle(t *testing.T) {
	needsConfinement(t)
	repo := newRepository(t)
	for _, refs := range [][]string{{"HEAD"}, {"--all"}, {"main"}} {
		r, err := Run(t.Context(), gitRequest(t, repo.bundle(t, refs...), repo.commit, showFiles), testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		checkFiles(t, r)
	}
	noCgroupsLeft(t)
}

func TestSourceIsARemote(t *testing.T) {
	needsConfinement(t)
	repo := newRepository(t)
	address, requests := repo.serve(t)
	opts := testOptions(t)
	opts.FetchFrom = []string{address}
	r, err := Run(t.Context(), gitRequest(t, address+"/r.git", repo.commit, showFiles), opts)
	if err != nil {
		t.Fatal(err)
	}
	checkFiles(t, r)
	if requests.Load() == 0 {
		t.Error("nobody asked the server")
	}
	// The job itself still has no network.
	port := address[strings.LastIndex(address, ":")+1:]
	r, err = Run(t.Context(), gitRequest(t, address+"/r.git", repo.tip, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/"+port+"' && echo connected; bash -c 'exec 3<>/dev/tcp/"+strings.Replace(proxyAddress, ":", "/", 1)+"' && echo proxied; ls later"), opts)
	if err != nil || r.Runs[0].StdoutPreview != "later\n" {
		t.Errorf("%+v %v", r, err)
	}
	noCgroupsLeft(t)
}

func TestSourcesThatCannotBeRead(t *testing.T) {
	needsConfinement(t)
	repo := newRepository(t)
	address, _ := repo.serve(t)
	other := httptest.NewServer(http.RedirectHandler(address+"/r.git/info/refs?service=git-upload-pack", http.StatusFound))
	t.Cleanup(other.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	opts := testOptions(t)
	opts.FetchFrom = []string{address, other.URL, secure.URL}
	bundle := repo.bundle(t, "main")
	encoded := strings.TrimPrefix(bundle, bundlePrefix)
	cut := bundlePrefix + encoded[:len(encoded)*3/4/4*4]
	for name, tt := range map[string]struct{ source, ref, field, said string }{
		"branch":           {bundle, "main", "repo.git_ref", "full id"},
		"no reference":     {bundle, "", "repo.git_ref", "full id"},
		"short id":         {bundle, repo.commit[:12], "repo.git_ref", "full id"},
		"option":           {bundle, "--upload-pack=x", "repo.git_ref", "full id"},
		"other commit":     {bundle, strings.Repeat("0123", 10), "repo.source", "no commit"},
		"other hash":       {bundle, strings.Repeat("0123", 16), "repo.source", "git:"},
		"tree, no commit":  {bundle, treeOf(t, repo), "repo.source", "no commit"},
		"cut off":          {cut, repo.commit, "repo.source", "git:"},
		"no bundle":        {bundlePrefix + "eHh4", repo.commit, "repo.source", "git:"},
		"incremental":      {repo.bundle(t, repo.commit+"..main"), repo.tip, "repo.source", "git:"},
		"no base64":        {bundlePrefix + "?", repo.commit, "repo.source", "base64"},
		"other server":     {"https://example.com/r.git", repo.commit, "repo.source", "not offered"},
		"missing":          {address + "/none.git", repo.commit, "repo.source", "git:"},
		"unknown commit":   {address + "/r.git", strings.Repeat("0123", 10), "repo.source", "git:"},
		"unknown issuer":   {secure.URL + "/r.git", repo.commit, "repo.source", "certificate"},
		"redirect":         {other.URL + "/r.git", repo.commit, "repo.source", "git:"},
		"ssh":              {"ssh://127.0.0.1/r.git", repo.commit, "repo.source", "inline archive"},
		"ext":              {"ext::sh -c id", repo.commit, "repo.source", "inline archive"},
		"file":             {"file://" + repo.dir, repo.commit, "repo.source", "inline archive"},
		"a path":           {repo.dir, repo.commit, "repo.source", "inline archive"},
		"user in address":  {strings.Replace(address, "//", "//u:p@", 1) + "/r.git", repo.commit, "repo.source", "user"},
		"spaces":           {address + "/r.git --x", repo.commit, "repo.source", "not the address"},
		"option as a path": {address + "?--upload-pack=x", repo.commit, "repo.source", "query"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), gitRequest(t, tt.source, tt.ref, "true"), opts)
			var re *RequestError
			if !errors.As(err, &re) || re.Field != tt.field || !strings.Contains(re.Reason, tt.said) {
				t.Errorf("got %v", err)
			}
		})
	}
	noCgroupsLeft(t)
}

func treeOf(t *testing.T, r repository) string {
	t.Helper()
	out, err := exec.Command("git", "-C", r.dir, "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A server that never answers costs a job its time, and no more.
func TestFetchEndsWithItsCaller(t *testing.T) {
	needsConfinement(t)
	repo := newRepository(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	}))
	t.Cleanup(func() { close(release); silent.Close() })
	opts := testOptions(t)
	opts.FetchFrom = []string{silent.URL}
	r, err := Run(ctx, gitRequest(t, silent.URL+"/r.git", repo.commit, "true"), opts)
	if err != nil || r.Status != schemas.StatusCancelled || len(r.Runs) != 0 {
		t.Errorf("cancelled: %+v %v", r, err)
	}
	req := gitRequest(t, silent.URL+"/r.git", repo.commit, "true")
	req.Sandbox.Resources.TimeoutSecs = 1
	_, err = Run(t.Context(), req, opts)
	if re := (*RequestError)(nil); !errors.As(err, &re) || re.Field != "repo.source" {
		t.Errorf("out of time: %v", err)
	}
	noCgroupsLeft(t)
}
