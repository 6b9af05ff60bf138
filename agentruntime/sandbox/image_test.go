package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/schemas"
)

// imageTree is a root file system with a shell, what it links to, and cat.
func imageTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(host, inside string) {
		real, err := filepath.EvalSymlinks(host)
		if err != nil {
			testclass.Unavailable(t, err.Error())
		}
		bytes, err := os.ReadFile(real)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, inside)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testclass.Require(t, "sh", "cat", "ls", "ldd")
	for _, tool := range []string{"/bin/sh", "/bin/cat", "/bin/ls"} {
		put(tool, "usr"+tool)
		linked, err := exec.Command("ldd", tool).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", tool, err)
		}
		for _, library := range regexp.MustCompile(`/[^ ]+`).FindAllString(string(linked), -1) {
			put(library, library)
		}
	}
	for path, target := range map[string]string{"bin": "usr/bin", "shadow": "/etc/shadow"} {
		if err := os.Symlink(target, filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"etc/os-release": "ID=tiny\n", "opt/data": "of the image\n", "tmp/no": "", "home/no": "", "VERSION": "1\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func imageJob(digest hashing.Digest, fields map[string]any) map[string]any {
	fields["sandbox"] = map[string]any{"provider": "docker", "image_digest": digest.String()}
	return fields
}

func TestJobsRunOnAnImage(t *testing.T) {
	needsConfinement(t)
	opts := testOptions(t)
	opts.ImageDir = filepath.Join(t.TempDir(), "images")
	digest, err := images.Add(opts.ImageDir, imageTree(t))
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, request(t, imageJob(digest, map[string]any{
		"repo": map[string]any{"mount_path": "/home/me", "source": schemas.InlineArchive(tarGz(t, entry{name: "f", body: "from the source\n"}))},
		"commands": commands("cat f /etc/os-release /opt/data /VERSION; echo x >/artifacts/a", "ls /", "ls /tmp /home",
			"for f in /usr/x /etc/x /opt/data /VERSION /x; do echo x >$f && echo wrote $f; done; cat /shadow; ls /root /var /usr/bin/python3 /usr/bin/env; exit 0"),
	})), opts)
	if len(r.Runs) != 4 || r.Status != schemas.StatusSuccess || len(r.Artifacts) != 1 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []string{
		"from the source\nID=tiny\nof the image\n1\n",
		"VERSION\nartifacts\nbin\ndev\netc\nhome\nlib\nlib64\nopt\nproc\nshadow\ntmp\nusr\n",
		"/home:\nme\n\n/tmp:\n", "",
	} {
		got := strings.ReplaceAll(r.Runs[i].StdoutPreview, "lib64\n", "")
		if got != strings.ReplaceAll(want, "lib64\n", "") {
			t.Errorf("%s:\n%s%s", r.Runs[i].Cmd, got, r.Runs[i].StderrPreview)
		}
	}
	if r.EnvInfo.ImageDigest != digest || !strings.Contains(r.EnvInfo.SystemInfo, "registered root file system") {
		t.Errorf("environment %+v", r.EnvInfo)
	}
	root, err := images.Open(opts.ImageDir, digest)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := images.Add(filepath.Join(t.TempDir(), "again"), root); err != nil || after != digest {
		t.Errorf("after the jobs the image is %v, %v", after, err)
	}
}

func TestImagesThatAreNotThere(t *testing.T) {
	needsConfinement(t)
	opts := testOptions(t)
	opts.ImageDir = filepath.Join(t.TempDir(), "images")
	none := hashing.Bytes([]byte("none"))
	_, err := Run(t.Context(), request(t, imageJob(none, map[string]any{"commands": commands("true")})).Value.(*schemas.SandboxRunRequest), opts)
	if re := (*RequestError)(nil); !errors.As(err, &re) || re.Field != "sandbox.image_digest" {
		t.Errorf("not registered: %v", err)
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	digest, err := images.Add(opts.ImageDir, tree)
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, imageJob(digest, map[string]any{"commands": commands("true")}))
	r := run(t, req, opts)
	if r.Status != schemas.StatusFailed || r.Runs[0].ExitCode != exitNotFound || !strings.Contains(r.Runs[0].StderrPreview, "/bin/sh") {
		t.Errorf("an image without a shell: %+v", r)
	}
	// What is broken is the provider's fault, not the buyer's.
	if err := os.RemoveAll(filepath.Join(opts.ImageDir, digest.Hex(), "root")); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), req.Value.(*schemas.SandboxRunRequest), opts); !errors.Is(err, images.ErrDamaged) || errors.Is(err, ErrRequest) {
		t.Errorf("damaged: %v", err)
	}
	noCgroupsLeft(t)
}

// The descriptor by which process 1 reached the image leads to the host: no
// command may have it.
func TestImageLeavesNoWayBack(t *testing.T) {
	needsConfinement(t)
	store := filepath.Join(t.TempDir(), "images")
	digest, err := images.Add(store, imageTree(t))
	if err != nil {
		t.Fatal(err)
	}
	j := testJob("for f in 3 4 5 6 7 8 9 10 11 12; do ls /proc/self/fd/$f/ && echo open $f; done; ls /proc/1/fd/ && echo listed; while read -r _ _ _ _ at flags _; do echo $at $flags; done </proc/self/mountinfo")
	if j.plan.Image, err = images.Open(store, digest); err != nil {
		t.Fatal(err)
	}
	out := confineJob(t, j)
	said := out.runs[0].stdout.preview(maxPreviewBytes)
	if strings.Contains(said, "open ") || strings.Contains(said, "listed") {
		t.Errorf("a way out:\n%s", said)
	}
	for _, at := range []string{"/usr", "/etc", "/opt", "/VERSION"} {
		if !strings.Contains(said, "\n"+at+" ro,nosuid,nodev") {
			t.Errorf("%s is not read-only in\n%s", at, said)
		}
	}
}
