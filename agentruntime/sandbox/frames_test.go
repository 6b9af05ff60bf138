package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	w := &frameWriter{w: &buf}
	if err := errors.Join(w.write(frameStdout, []byte("out")), w.write(frameReady, nil), w.writeJSON(frameExit, exitReport{3, 7})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"oout", "r", `x{"exit_code":3,"duration_ms":7}`} {
		kind, payload, err := readFrame(&buf, nil)
		if err != nil || string(kind)+string(payload) != want {
			t.Errorf("got %c %q %v, want %q", kind, payload, err, want)
		}
	}
	if _, _, err := readFrame(&buf, nil); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := w.write(frameData, make([]byte, maxFrame+1)); err == nil {
		t.Error("a frame larger than the limit is written")
	}
}

func TestFrameStream(t *testing.T) {
	var buf bytes.Buffer
	w := &frameWriter{w: &buf}
	want := strings.Repeat("0123456789", 10_000)
	if err := errors.Join(w.writeStream(frameSource, strings.NewReader(want)), w.write(framePlan, nil)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(&frameStream{r: &buf, kind: frameSource})
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// A stream that another frame interrupts is broken, not short.
	if _, err := io.ReadAll(&frameStream{r: &buf, kind: frameSource}); err == nil {
		t.Error("a foreign frame is taken for data")
	}
	if _, err := io.ReadAll(&frameStream{r: strings.NewReader("g\x00\x00\x00\x05ab"), kind: frameSource}); err == nil {
		t.Error("a cut stream is taken for a whole one")
	}
}

// FuzzCollect feeds the agent's side with any report: it must end, keep its
// bounds and leave nothing half done.
func FuzzCollect(f *testing.F) {
	var good bytes.Buffer
	w := &frameWriter{w: &good}
	for _, err := range []error{
		w.write(frameReady, nil), w.write(frameStart, nil), w.write(frameStdout, []byte("é")),
		w.writeJSON(frameExit, exitReport{0, 1}), w.writeJSON(frameArtifact, artifactHeader{"a/b", 3}),
		w.write(frameData, []byte("abc")), w.write(frameData, nil), w.write(frameEnd, nil),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:good.Len()/2])
	f.Add([]byte("a\x00\x00\x00\x10{\"path\":\"../../x\"}"))
	f.Add([]byte("o\xff\xff\xff\xff"))
	f.Add([]byte("f\x00\x00\x00\x02{}z\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, report []byte) {
		dir := t.TempDir()
		p := &plan{Commands: []planCommand{{Cmd: "a"}, {Cmd: "b"}}}
		c := &collector{plan: p, artifacts: artifactStore{dir: dir}}
		err := c.collect(bytes.NewReader(report))
		c.artifacts.abandon()
		out, err := c.conclude(err, stopNone, nil, "")
		entries, readErr := os.ReadDir(dir)
		if readErr != nil || len(entries) > len(c.artifacts.done) {
			t.Errorf("%d files for %d artifacts, %v", len(entries), len(c.artifacts.done), readErr)
		}
		if err == nil && len(out.runs) > len(p.Commands) {
			t.Errorf("%d runs", len(out.runs))
		}
	})
}

func TestCollectRefusesWhatInitNeverSays(t *testing.T) {
	for name, frames := range map[string]string{
		"output before a command":   "o\x00\x00\x00\x01x",
		"output after a command":    "s\x00\x00\x00\x00x\x00\x00\x00\x02{}o\x00\x00\x00\x01x",
		"too many commands":         "s\x00\x00\x00\x00x\x00\x00\x00\x02{}s\x00\x00\x00\x00",
		"unknown frame":             "?\x00\x00\x00\x00",
		"data without an artifact":  "d\x00\x00\x00\x01x",
		"artifact path that climbs": "a\x00\x00\x00\x0f{\"path\":\"../x\"}",
		"artifact in an artifact":   "a\x00\x00\x00\x0c{\"path\":\"x\"}a\x00\x00\x00\x0c{\"path\":\"y\"}",
		"unreadable failure":        "f\x00\x00\x00\x01{",
		"frame too large":           "o\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			c := &collector{plan: &plan{Commands: []planCommand{{Cmd: "a"}}}}
			if err := c.collect(strings.NewReader(frames)); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestConcludeWithoutAReport(t *testing.T) {
	c := &collector{plan: &plan{}}
	if _, err := c.conclude(nil, stopNone, nil, "panic: x"); !errors.Is(err, ErrSandboxDied) || !strings.Contains(err.Error(), "panic: x") {
		t.Errorf("got %v", err)
	}
}

// Commands that fill the job's processes may leave process 1 without a thread
// that it needs. That is what they did, and no fault of the sandbox.
func TestConcludeWhereCommandsLeaveNoThread(t *testing.T) {
	c := &collector{plan: &plan{Commands: []planCommand{{Cmd: "bomb"}}}, pids: 64}
	if err := c.collect(strings.NewReader("s\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	c.out.forksRefused = 3
	out, err := c.conclude(nil, stopNone, nil, "pthread_create failed")
	if err != nil || !strings.HasPrefix(out.limit, "process_limit: the commands filled all 64") || len(out.runs) != 1 || out.runs[0].exitCode != 137 {
		t.Errorf("%+v, %v", out, err)
	}
	c = &collector{plan: &plan{}}
	c.out.forksRefused = 3
	if _, err := c.conclude(nil, stopNone, nil, ""); !errors.Is(err, ErrSandboxDied) {
		t.Errorf("before any command: %v", err)
	}
}

func TestArtifactStoreCountsForItself(t *testing.T) {
	s := &artifactStore{dir: t.TempDir()}
	if err := s.begin(artifactHeader{Path: "a", Size: 1}); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<10)
	for range maxArtifactBytes >> 10 {
		if err := s.data(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.data([]byte("x")); err == nil {
		t.Error("more than the limit is stored")
	}
	s.abandon()
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}
