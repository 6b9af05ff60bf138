package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestToken(t *testing.T) {
	requirements.Covers(t, "OS-5.1.1", "OS-5.1.3", "OSX-2")
	synctest.Test(t, func(t *testing.T) {
		a, b := newToken(2*time.Minute), newToken(2*time.Minute)
		if len(a.secret) != 43 || a.secret == b.secret {
			t.Errorf("tokens %q, %q", a.secret, b.secret)
		}
		for _, wrong := range []string{"", a.secret[:42], a.secret + "A", b.secret} {
			if err := a.redeem(wrong); !errors.Is(err, errTokenWrong) {
				t.Errorf("wrong token: %v", err)
			}
		}
		time.Sleep(2*time.Minute - time.Nanosecond)
		if err := a.redeem(a.secret); err != nil {
			t.Errorf("right token: %v", err)
		}
		if err := a.redeem(a.secret); !errors.Is(err, errTokenUsed) {
			t.Errorf("used token: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := b.redeem(b.secret); !errors.Is(err, errTokenExpired) {
			t.Errorf("expired token: %v", err)
		}
	})
}

func TestIntensity(t *testing.T) {
	at := time.Unix(0, 0)
	policy := RestartPolicy{Max: 4, Window: time.Minute, MinBackoff: time.Second, MaxBackoff: 3 * time.Second}
	i := intensity{policy: policy}
	for n, want := range []time.Duration{1, 2, 3, 3} {
		if wait, ok := i.next(at); !ok || wait != want*time.Second {
			t.Errorf("restart %d: %s, %t", n, wait, ok)
		}
		at = at.Add(time.Second)
	}
	if _, ok := i.next(at); ok {
		t.Error("a fifth restart in the window is allowed")
	}
	at = time.Unix(60, 0) // the first has left the window
	if wait, ok := i.next(at); !ok || wait != 3*time.Second {
		t.Errorf("after the window: %s, %t", wait, ok)
	}
	i.reset()
	if wait, ok := i.next(at); !ok || wait != time.Second {
		t.Errorf("after reset: %s, %t", wait, ok)
	}
	policy.Never = true
	if _, ok := (&intensity{policy: policy}).next(at); ok {
		t.Error("Never allows a restart")
	}
}

func TestLogCapture(t *testing.T) {
	requirements.Covers(t, "OS-5.1.2", "OSX-10")
	secret := newToken(time.Minute).secret
	capture := func(out string) (lines []string) {
		c := &logCapture{secret: secret, emit: func(l LogLine) { lines = append(lines, l.Text) }}
		c.read("stdout", strings.NewReader(out))
		return lines
	}
	long := strings.Repeat("x", maxLogLine)
	tests := []struct{ name, out, want string }{
		{"lines", "a\nb\r\n\nc", "a|b||c"},
		{"control characters", "\x1b[31mred\x00\tx\n", "[31mred\tx"},
		{"not UTF-8", "a\xffb\n", "ab"},
		{"token", "x" + secret + "y\n", "x[REDACTED]y"},
		{"longest line", long + "\nb\n", long + "|b"},
		{"longer line", long + "yz" + strings.Repeat("z", 50_000) + "\nb\n", long + "|b"},
		{"token across the cut", long[5:] + secret + "\nb\n", long[5:] + redacted[:5] + "|b"},
		{"token behind the cut", long + secret + "\nb\n", long + "|b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(capture(tt.out), "|"); got != tt.want {
				t.Errorf("got %.200q (%d bytes), want %.200q", got, len(got), tt.want)
			}
		})
	}
	for _, size := range []int{967, 0} { // an empty line takes room too
		t.Run(fmt.Sprintf("whole run, lines of %d bytes", size), func(t *testing.T) {
			most := maxLogRun / (lineFrame + size)
			lines := capture(strings.Repeat(strings.Repeat("x", size)+"\n", most+1000))
			if n := len(lines); n != most+1 || lines[n-1] != truncated || lines[n-2] == truncated {
				t.Errorf("%d lines, the last is %.20q", n, lines[n-1])
			}
		})
	}
}

func TestSocketDirectory(t *testing.T) {
	requirements.Covers(t, "OS-1.1.1", "OS-1.1.2")
	base := filepath.Join(shortTempDir(t), "a", "b")
	if err := PrepareSocketDir(base); err != nil {
		t.Fatal(err)
	}
	if err := PrepareSocketDir(base); err != nil {
		t.Errorf("again: %v", err)
	}
	id, ln, err := listen(base, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for path, want := range map[string]os.FileMode{"": 0o711 | os.ModeDir, id: 0o700 | os.ModeDir, id + "/s": 0o600 | os.ModeSocket} {
		st, err := os.Stat(filepath.Join(base, path))
		if err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := PrepareSocketDir(base); err == nil {
		t.Error("a directory that everybody can write is accepted")
	}
	if err := PrepareSocketDir("/" + strings.Repeat("x", 120)); err == nil {
		t.Error("a path too long for a socket is accepted")
	}
}

func TestSpecRefused(t *testing.T) {
	requirements.Covers(t, "OS-0.1")
	good := Spec{ID: "a.b", Version: "1.0.0", Command: []string{"/bin/true"}, Tools: []string{"x"}}
	if err := good.fill(1, 256); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"no id":             func(s *Spec) { s.ID = "" },
		"id with a slash":   func(s *Spec) { s.ID = "a/b" },
		"version":           func(s *Spec) { s.Version = "one" },
		"no command":        func(s *Spec) { s.Command = nil },
		"relative command":  func(s *Spec) { s.Command = []string{"./a"} },
		"tool with a slash": func(s *Spec) { s.Tools = []string{"a.b/x"} },
		"own token":         func(s *Spec) { s.Env = []string{"OPENSENTIENCE_SESSION_TOKEN=x"} },
		"guard":             func(s *Spec) { s.Env = []string{guard.Env + "=1"} },
		"no value":          func(s *Spec) { s.Env = []string{"HOME"} },
		"negative uid":      func(s *Spec) { s.UID = -1 },
	} {
		s := good
		change(&s)
		if err := s.fill(1, 256); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a config without a socket directory is accepted")
	}
}

func TestDescendants(t *testing.T) {
	found := false
	for _, pid := range guard.Descendants(os.Getppid()) {
		found = found || pid == os.Getpid()
	}
	if !found {
		t.Error("this process is not below its parent")
	}
}

func TestErrorText(t *testing.T) {
	if got := fmt.Sprint(&Error{Code: "a.b"}, "|", failf("a.b", "x\x1b%d", 1)); got != "a.b | a.b: x1" && got != "a.b|a.b: x1" {
		t.Errorf("got %q", got)
	}
}
