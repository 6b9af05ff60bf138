package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// escape is one program of testdata/escapes. It prints a line that begins with
// "escaped" where it got through and "done" when it has tried everything. Its first lines say:
//
//	# must not: what it tries
//	# net: localhost            with a loopback device
//	# limit: artifact_limit     the limit that must stop the job
//	# artifacts: one,two        all that may come out
//	# landlock lets: .* is there   what of the host shows where only Landlock holds
//	# note: anything
type escape struct {
	file      string
	mustNot   string
	loopback  bool
	limit     string
	artifacts *string // nil: not looked at
	lets      *regexp.Regexp
}

// programs read the corpus.
func programs(t *testing.T) []escape {
	t.Helper()
	files, err := filepath.Glob("testdata/escapes/*.*")
	if err != nil {
		t.Fatal(err)
	}
	var all []escape
	for _, file := range files {
		if strings.HasSuffix(file, ".h") {
			continue
		}
		all = append(all, readEscape(t, file))
	}
	return all
}

func readEscape(t *testing.T, file string) escape {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := escape{file: filepath.Base(file)}
	for line := range strings.Lines(string(text)) {
		mark, said, ok := strings.Cut(line, " ")
		if !ok || mark != "#" && mark != "//" {
			break
		}
		name, value, _ := strings.Cut(said, ":")
		switch value = strings.TrimSpace(value); name {
		case "must not":
			e.mustNot = value
		case "net":
			e.loopback = value == "localhost"
		case "limit":
			e.limit = value
		case "artifacts":
			e.artifacts = &value
		case "landlock lets":
			e.lets = regexp.MustCompile("^escaped: " + value + "\n?$")
		case "note":
		default:
			t.Fatalf("%s begins with an unknown %q", file, name)
		}
	}
	if e.mustNot == "" {
		t.Fatalf("%s does not say what it must not do", file)
	}
	return e
}

// command runs the program inside, compiled there where it is C.
func (e escape) command() (tool, command string) {
	switch filepath.Ext(e.file) {
	case ".sh":
		return "sh", "sh " + e.file
	case ".py":
		return "python3", "python3 " + e.file
	default:
		// A linker makes its output executable by its path, which may be refused.
		return "gcc", `p=${TMPDIR:-/tmp}/program; gcc -w -o "$p" ` + e.file + ` || exit 1
			[ -x "$p" ] || python3 -c 'import os, sys; os.fchmod(os.open(sys.argv[1], os.O_RDONLY), 0o700)' "$p"
			"$p"`
	}
}

// TestEscapes runs the whole corpus. Nothing of it may get through, and
// nothing of the host may have changed after any of it.
func TestEscapes(t *testing.T) {
	requirements.Covers(t, "AP-8.2.2")
	all := programs(t)
	if len(all) < 60 {
		t.Fatalf("the corpus has %d programs", len(all))
	}
	atEachLevel(t, func(t *testing.T) {
		c := plantCanaries(t)
		for _, e := range all {
			t.Run(e.file, func(t *testing.T) {
				tool, command := e.command()
				require(t, tool)
				mark := marker()
				out := confineJob(t, e.job(t, c, command, mark))
				e.check(t, out)
				c.check(t)
				noneAlive(t, mark)
				noCgroupsLeft(t)
			})
		}
	})
}

func (e escape) job(t *testing.T, c *canaries, command, mark string) *job {
	t.Helper()
	var files []entry
	for _, name := range []string{e.file, "escape.h"} {
		text, err := os.ReadFile(filepath.Join("testdata/escapes", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, entry{name: name, body: string(text)})
	}
	j := testJob(command)
	j.plan.Env = append(j.plan.Env, append(c.environment(), "CANARY_MARK="+mark, "LIGHTWORK_ARTIFACTS="+artifactMount)...)
	if j.plan.Split {
		j.plan.Env = append(j.plan.Env, "CANARY_SPLIT=1")
	}
	j.plan.Loopback = e.loopback
	j.source, j.plan.Source = tarGz(t, files...), true
	j.plan.DiskBytes = 256 << 20
	j.limits = cgroup.Limits{MemoryBytes: 768 << 20, Pids: 128, CPUs: 2}
	j.timeout = 10 * time.Minute // ends what hangs; a program forks a hundred times, on an emulated machine too
	return j
}

func (e escape) check(t *testing.T, out *outcome) {
	t.Helper()
	said := out.runs[0].stdout.preview(maxPreviewBytes)
	for line := range strings.Lines(said + "\n" + out.runs[0].stderr.preview(maxPreviewBytes)) {
		if testLevel == LevelLandlock && e.lets != nil && e.lets.MatchString(line) {
			t.Logf("not held at level %s: %s", testLevel, line)
			continue
		}
		if strings.HasPrefix(line, "escaped") { // a tool may quote the command itself
			t.Errorf("must not %s, but: %s", e.mustNot, line)
		}
	}
	if len(out.runs) != 1 || !strings.HasSuffix(said, "done\n") || out.stopped != stopNone {
		t.Errorf("did not get to its end: %s", describe(out))
	}
	refused := testLevel == LevelLandlock && out.limit == "" // a file of that size was never made
	if !refused && !strings.HasPrefix(out.limit, e.limit) || e.limit == "" && out.limit != "" {
		t.Errorf("limit %q, want %q", out.limit, e.limit)
	}
	if e.limit != "" && !refused && len(out.artifacts) != 0 {
		t.Errorf("%d artifacts came out", len(out.artifacts))
	}
	if e.artifacts == nil {
		return
	}
	var got []string
	for _, a := range out.artifacts {
		got = append(got, a.Path)
	}
	slices.Sort(got)
	if strings.Join(got, ",") != *e.artifacts {
		t.Errorf("artifacts %q, want %q", strings.Join(got, ","), *e.artifacts)
	}
}
