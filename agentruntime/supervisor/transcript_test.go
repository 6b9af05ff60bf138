package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestTranscripts plays testdata/transcripts/*.txtar: the file "spec" is the
// agent's Spec as JSON, "script" holds the conversation:
//
//	agent: MESSAGE     the agent sends it; v, id and ts are filled in
//	raw: TEXT          the agent sends a frame of exactly this text
//	core: MESSAGE      core answers with exactly this, but for v, id and ts
//	call: TOOL INPUT   somebody calls a tool
//	return: TEXT       the call has this output, or error code
//	closed:            core has closed the connection
//
// $TOKEN is the session token; $SESSION, $CALL, $REQUEST and $MESSAGE are ids
// that core made, the latest of each kind.
func TestTranscripts(t *testing.T) {
	covers := map[string][]string{
		"handshake.txtar":       {"OS-4.1.1.1", "OS-4.1.2.1", "OS-4.1.2.2", "OS-4.1.2.3", "OS-4.1.2.4", "OS-4.1.2.5", "OS-4.1.2.6", "OS-3.1.1", "OS-6.1.1", "OS-4.2.1.12", "OS-4.2.2.1", "OS-4.3.1.1", "OS-4.3.3.1", "K-13"},
		"wrong-token.txtar":     {"OS-4.1.2.7", "OS-0.8"},
		"not-hello.txtar":       {"OS-4.1.1.1", "OS-5.3.2", "OS-0.8"},
		"wrong-agent.txtar":     {"OS-4.1.1.3"},
		"manifest-drift.txtar":  {"OS-4.1.1.5"},
		"no-version.txtar":      {"OS-6.1.2"},
		"registration.txtar":    {"OS-4.2.0.1", "OS-4.2.1.2", "OS-4.2.1.3", "OS-4.2.2.2", "OS-4.2.2.3", "OS-4.2.2.4", "OS-4.2.2.5", "OS-4.2.3.1", "OS-4.2.3.2", "OS-4.2.1.11"},
		"malformed-hello.txtar": {"OS-4.1.1.2"},
	}
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) != len(covers) {
		t.Fatalf("%d transcripts, want %d (%v)", len(files), len(covers), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			requirements.Covers(t, covers[filepath.Base(file)]...)
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var spec Spec
			if err := json.Unmarshal(ar.Files[0].Data, &spec); err != nil {
				t.Fatal(err)
			}
			p := &player{fake: newFake(t, Config{HeartbeatInterval: time.Hour, CoreVersion: "1.0.0", InstanceID: "i"}, spec), ids: map[string]string{}}
			p.ids["$TOKEN"] = p.token.secret
			for n, line := range strings.Split(string(ar.Files[1].Data), "\n") {
				if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				verb, arg, _ := strings.Cut(line, ":")
				if err := p.step(verb, strings.TrimSpace(arg)); err != nil {
					t.Fatalf("script line %d: %v", n+1, err)
				}
			}
		})
	}
}

type player struct {
	*fake
	ids   map[string]string // placeholder -> value
	calls int
	end   <-chan called
}

func (p *player) step(verb, arg string) error {
	switch verb {
	case "agent":
		p.calls++
		arg = fmt.Sprintf(`{"v":1,"id":"a%d","ts":"2026-01-16T12:00:00Z",%s`, p.calls, strings.TrimPrefix(arg, "{"))
		p.frame(p.fill(arg))
	case "raw":
		p.frame(p.fill(arg))
	case "core":
		payload, err := p.in.Next()
		if err != nil {
			return fmt.Errorf("core says nothing: %w", err)
		}
		if got := p.normal(payload); got != arg {
			return fmt.Errorf("core says\n%s\nwant\n%s", got, arg)
		}
	case "call":
		if err := <-p.greeted; err != nil {
			return err
		}
		p.greeted <- nil
		tool, input, _ := strings.Cut(arg, " ")
		p.end = p.call(Call{Tool: tool, Input: []byte(input)})
	case "return":
		got := <-p.end
		if got.err != nil {
			got.Output = []byte(got.err.Code)
		}
		if string(got.Output) != arg {
			return fmt.Errorf("the call returns %s, want %s", got.Output, arg)
		}
	case "closed":
		if m, err := p.in.Next(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("core says %s, %v", m, err)
		}
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
	return nil
}

func (p *player) fill(text string) string {
	for name, value := range p.ids {
		text = strings.ReplaceAll(text, name, value)
	}
	return text
}

var made = []struct {
	name string
	form *regexp.Regexp
}{
	{"$SESSION", regexp.MustCompile(`"session_id":"([0-9a-f-]{36})"`)},
	{"$CALL", regexp.MustCompile(`"call_id":"([0-9a-f-]{36})"`)},
	{"$REQUEST", regexp.MustCompile(`"request_id":"([0-9a-f-]{36})"`)},
	{"$MESSAGE", regexp.MustCompile(`"id":"([0-9a-f-]{36})"`)},
}

var volatile = regexp.MustCompile(`"v":1,|"id":"[^"]*",|"ts":"[^"]*",`)

// normal learns the ids in a message of core and replaces them.
func (p *player) normal(payload []byte) string {
	for _, m := range made {
		if found := m.form.FindSubmatch(payload); found != nil {
			p.ids[m.name] = string(found[1])
		}
	}
	text := volatile.ReplaceAllString(string(payload), "")
	for _, m := range made[:3] {
		if id := p.ids[m.name]; id != "" {
			text = strings.ReplaceAll(text, id, m.name)
		}
	}
	return text
}
