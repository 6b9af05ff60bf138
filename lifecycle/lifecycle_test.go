package lifecycle

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

var id = strings.Repeat("a", 64)

func samples() map[string]Document {
	return map[string]Document{
		"profile": &AgentProfile{Name: "n", Capabilities: []string{"oa.sandbox_run.v1"}, Autonomy: "bounded", Version: "lightwork@1"},
		"state":   &AgentState{Version: 1, Status: "available", Slots: 2, Ticks: 7, At: 1_700_000_000},
		"request": &TickRequest{Job: id, Run: 1, Runner: id, Trigger: "job"},
		"result":  &TickResult{Request: id, Runner: id, Status: "timeout", DurationMs: 12, Actions: 1},
		"session": &TrajectorySession{SessionID: "s-1", Job: id, StartedAt: 5, EndedAt: 6, Events: 1, TrajectoryHash: hashing.Bytes(nil), Redacted: hashing.Bytes(nil), Visibility: "private"},
		"event":   &TrajectoryEvent{SessionID: "s-1", Seq: 1, Step: "ToolCall", Line: json.RawMessage(`{"event":"ToolCall"}`)},
	}
}

// TestForms: each is read back as it was written, and nothing else is read.
func TestForms(t *testing.T) {
	requirements.Covers(t, "OA-1.4")
	for name, doc := range samples() {
		tags, content, err := Encode(doc)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := func(tags [][]string, content string) (Document, error) {
			fresh := reflect.New(reflect.TypeOf(doc).Elem()).Interface().(Document)
			return fresh, Parse(tags, content, fresh)
		}
		if got, err := read(append(tags, []string{"p", id}), content); err != nil || !reflect.DeepEqual(got, doc) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for bad, change := range map[string]func() ([][]string, string){
			"unknown field": func() ([][]string, string) { return tags, `{"x":1,` + content[1:] },
			"no fields":     func() ([][]string, string) { return tags, `{}` },
			"no document":   func() ([][]string, string) { return tags, `[]` },
			"too long":      func() ([][]string, string) { return tags, content + strings.Repeat(" ", maxDocument) },
			"no tags":       func() ([][]string, string) { return nil, content },
			"two addresses": func() ([][]string, string) { return append(tags, []string{"d", "other"}), content },
			"another tag": func() ([][]string, string) {
				changed := append([][]string{}, tags...)
				changed[len(changed)-1] = []string{changed[len(changed)-1][0], "other"}
				return changed, content
			},
		} {
			badTags, badContent := change()
			if got, err := read(badTags, badContent); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, %s: %+v, %v", name, bad, got, err)
			}
		}
	}
}

// Each is taken as itself and as no other, whatever its tags say besides.
func TestFormsAreToldApart(t *testing.T) {
	for name, doc := range samples() {
		tags, content, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		for other, reader := range samples() {
			fresh := reflect.New(reflect.TypeOf(reader).Elem()).Interface().(Document)
			if err := Parse(tags, content, fresh); (err == nil) != (name == other) {
				t.Errorf("%s read as %s: %v", name, other, err)
			}
		}
		for _, d := range append(domain.All(), "") {
			changed := slices.DeleteFunc(slices.Clone(tags), func(tag []string) bool { return tag[0] == domain.TagName })
			if d != "" {
				changed = append(changed, d.Tag())
			}
			fresh := reflect.New(reflect.TypeOf(doc).Elem()).Interface().(Document)
			if err := Parse(changed, content, fresh); (err == nil) != (d == DomainOf(doc)) {
				t.Errorf("%s as %q: %v", name, d, err)
			}
		}
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	for name, doc := range map[string]Document{
		"autonomy": &AgentProfile{Capabilities: []string{}, Autonomy: "wild", Version: "1"}, "no list": &AgentProfile{Autonomy: "bounded", Version: "1"},
		"status": &AgentState{Version: 1, Status: "x", At: 1}, "job": &TickRequest{Job: "A", Run: 1, Runner: id, Trigger: "job"},
		"run": &TickRequest{Job: id, Runner: id, Trigger: "job"}, "duration": &TickResult{Request: id, Runner: id, Status: "success", DurationMs: -1},
		"ends first": &TrajectorySession{SessionID: "s", Job: id, StartedAt: 6, EndedAt: 5, Events: 1, Visibility: "public"},
		"step":       &TrajectoryEvent{SessionID: "s", Seq: 1, Step: "ToolCall", Line: json.RawMessage(`{"event":"SessionEnd"}`)},
		"no line":    &TrajectoryEvent{SessionID: "s", Seq: 1, Step: "ToolCall"},
	} {
		if _, _, err := Encode(doc); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		kinds Kinds
		ok    bool
	}{
		"none":               {Kinds{}, true},
		"addressable":        {Kinds{39200, 39201, 39210, 39211, 39230, 39231}, true},
		"regular":            {Kinds{TickRequest: 1700, TickResult: 1701}, true},
		"a changing regular": {Kinds{AgentState: 1700}, false},
		"twice":              {Kinds{AgentProfile: 39200, AgentState: 39200}, false},
		"announcement":       {Kinds{AgentProfile: 31990}, false},
		"of the market":      {Kinds{TickRequest: 6050}, false},
		"replaceable":        {Kinds{TickRequest: 10002}, false},
		"ephemeral":          {Kinds{TickRequest: 20001}, false},
		"negative":           {Kinds{TickRequest: -1}, false},
		"a result alone":     {Kinds{TickResult: 1701}, false},
		"lines alone":        {Kinds{TrajectoryEvent: 39231}, false},
		"no lines":           {Kinds{TrajectorySession: 39230}, true},
	} {
		if err := c.kinds.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrKinds) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
