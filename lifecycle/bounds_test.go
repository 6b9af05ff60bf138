package lifecycle

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestBounds: each field is taken at its last value and refused one further.
func TestBounds(t *testing.T) {
	text := func(n int) string { return strings.Repeat("t", n) }
	profile := func(change func(*AgentProfile)) Document {
		p := *samples()["profile"].(*AgentProfile)
		change(&p)
		return &p
	}
	state := func(change func(*AgentState)) Document {
		s := *samples()["state"].(*AgentState)
		change(&s)
		return &s
	}
	request := func(change func(*TickRequest)) Document {
		r := *samples()["request"].(*TickRequest)
		change(&r)
		return &r
	}
	result := func(change func(*TickResult)) Document {
		r := *samples()["result"].(*TickResult)
		change(&r)
		return &r
	}
	session := func(change func(*TrajectorySession)) Document {
		s := *samples()["session"].(*TrajectorySession)
		change(&s)
		return &s
	}
	event := func(change func(*TrajectoryEvent)) Document {
		e := *samples()["event"].(*TrajectoryEvent)
		change(&e)
		return &e
	}

	for name, c := range map[string]struct {
		with        func(n int64) Document
		least, most int64
	}{
		"name":    {func(n int64) Document { return profile(func(p *AgentProfile) { p.Name = text(int(n)) }) }, 0, 256},
		"about":   {func(n int64) Document { return profile(func(p *AgentProfile) { p.About = text(int(n)) }) }, 0, 4096},
		"picture": {func(n int64) Document { return profile(func(p *AgentProfile) { p.Picture = text(int(n)) }) }, 0, 4096},
		"version": {func(n int64) Document { return profile(func(p *AgentProfile) { p.Version = text(int(n)) }) }, 1, 256},
		"capability": {func(n int64) Document {
			return profile(func(p *AgentProfile) { p.Capabilities = []string{text(int(n))} })
		}, 1, 256},
		"state version": {func(n int64) Document { return state(func(s *AgentState) { s.Version = int(n) }) }, 1, 1},
		"slots":         {func(n int64) Document { return state(func(s *AgentState) { s.Slots = n }) }, 0, 1 << 20},
		"ticks":         {func(n int64) Document { return state(func(s *AgentState) { s.Ticks = n }) }, 0, 1 << 52},
		"at":            {func(n int64) Document { return state(func(s *AgentState) { s.At = n }) }, 1, 1 << 40},
		"run":           {func(n int64) Document { return request(func(r *TickRequest) { r.Run = n }) }, 1, 1 << 20},
		"job":           {func(n int64) Document { return request(func(r *TickRequest) { r.Job = strings.Repeat("0", int(n)) }) }, 64, 64},
		"runner":        {func(n int64) Document { return result(func(r *TickResult) { r.Runner = strings.Repeat("f", int(n)) }) }, 64, 64},
		"duration":      {func(n int64) Document { return result(func(r *TickResult) { r.DurationMs = n }) }, 0, 1 << 52},
		"actions":       {func(n int64) Document { return result(func(r *TickResult) { r.Actions = n }) }, 0, 1 << 20},
		"session id":    {func(n int64) Document { return session(func(s *TrajectorySession) { s.SessionID = text(int(n)) }) }, 1, 256},
		"ended at":      {func(n int64) Document { return session(func(s *TrajectorySession) { s.EndedAt = n }) }, 5, 1 << 40},
		"events":        {func(n int64) Document { return session(func(s *TrajectorySession) { s.Events = n }) }, 1, 1 << 20},
		"seq":           {func(n int64) Document { return event(func(e *TrajectoryEvent) { e.Seq = n }) }, 1, 1 << 20},
	} {
		for n, ok := range map[int64]bool{c.least: true, c.most: true, c.least - 1: false, c.most + 1: false} {
			if c.least == 0 && n < 0 && strings.Contains("name about picture", name) {
				continue // no text is shorter than none
			}
			if _, _, err := Encode(c.with(n)); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s of %d: %v", name, n, err)
			}
		}
	}

	full := profile(func(p *AgentProfile) { p.Capabilities = strings.Split(strings.Repeat("c ", 64)[:127], " ") })
	if _, _, err := Encode(full); err != nil {
		t.Errorf("64 capabilities: %v", err)
	}
	p := full.(*AgentProfile)
	if p.Capabilities = append(p.Capabilities, "c"); len(p.Capabilities) != 65 {
		t.Fatalf("%d capabilities", len(p.Capabilities))
	}
	if _, _, err := Encode(p); !errors.Is(err, ErrInvalid) {
		t.Errorf("65 capabilities: %v", err)
	}
	long := event(func(e *TrajectoryEvent) {
		e.Line = json.RawMessage(`{"event":"ToolCall","text":"` + text(maxDocument) + `"}`)
	})
	if _, _, err := Encode(long); !errors.Is(err, ErrInvalid) {
		t.Errorf("a line over the bound of a document: %v", err)
	}
}

// TestAddress: documents that follow each other have one address, and those that stay
// have one each.
func TestAddress(t *testing.T) {
	for name, want := range map[string]string{
		"profile": "profile", "state": "state", "request": id + ":1", "result": id, "session": "s-1", "event": "s-1:1",
	} {
		doc := samples()[name]
		tags, _, err := Encode(doc)
		if err != nil || Address(doc) != want || tags[0][0] != "d" || tags[0][1] != want {
			t.Errorf("%s is at %q, tagged %v (%v), want %q", name, Address(doc), tags[0], err, want)
		}
	}
}

// FuzzParse: whatever an event of a stranger holds, a document that is read is one that
// could be written, with the same content.
func FuzzParse(f *testing.F) {
	var names []string
	for name, doc := range samples() {
		_, content, err := Encode(doc)
		if err != nil {
			f.Fatal(err)
		}
		names = append(names, name)
		f.Add(name, content, Address(doc))
	}
	f.Add("state", `{"state_version":1e0}`, "state")
	f.Add("event", `{"line":{"event":"ToolCall","event":"x"}}`, "s-1:1")
	f.Fuzz(func(t *testing.T, name, content, d string) {
		sample, ok := samples()[name]
		if !ok {
			sample = samples()[names[0]]
		}
		doc := reflect.New(reflect.TypeOf(sample).Elem()).Interface().(Document)
		_ = json.Unmarshal([]byte(content), doc) // its tags, as far as it has any
		tags := append([][]string{{"d", d}, doc.domain().Tag()}, doc.tags()...)
		fresh := reflect.New(reflect.TypeOf(sample).Elem()).Interface().(Document)
		if err := Parse(tags, content, fresh); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		if _, _, err := Encode(fresh); err != nil || Address(fresh) != d {
			t.Errorf("%q was read from %s, and is %q (%v)", d, content, Address(fresh), err)
		}
	})
}
