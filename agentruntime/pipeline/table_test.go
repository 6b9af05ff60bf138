package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestNewRefusesBadConfig(t *testing.T) {
	requirements.Covers(t, "AP-3.2.1", "AP-3.2.2", "AP-3.2.3", "AP-4.1.4", "AP-9.1.1", "AP-3.2.4", "AP-3.2.5")
	good := echo("echo", "Ping")
	changed := func(change func(*Handler)) Handler {
		h := echo("echo", "Ping")
		change(&h)
		return h
	}
	profile := func(names ...string) []Profile { return []Profile{{Name: "main", Handlers: names}} }
	for name, tt := range map[string]struct {
		handlers []Handler
		profiles []Profile
		is       error
	}{
		"duplicate name":       {[]Handler{good, echo("echo", "Pong")}, nil, nil},
		"no name":              {[]Handler{echo("", "Ping")}, nil, nil},
		"name with a space":    {[]Handler{echo("a b", "Ping")}, nil, nil},
		"the pipeline's name":  {[]Handler{echo("pipeline", "Ping")}, nil, nil},
		"name all":             {[]Handler{echo("all", "Ping")}, nil, ErrWildcard},
		"no description":       {[]Handler{changed(func(h *Handler) { h.Description = "" })}, nil, nil},
		"no function":          {[]Handler{changed(func(h *Handler) { h.Handle = nil })}, nil, nil},
		"no tag":               {[]Handler{changed(func(h *Handler) { h.Tags = nil })}, nil, nil},
		"tag twice":            {[]Handler{echo("echo", "Ping", "Ping")}, nil, nil},
		"bad tag":              {[]Handler{echo("echo", "Pi ng")}, nil, nil},
		"tag wildcard":         {[]Handler{echo("echo", "*")}, nil, ErrWildcard},
		"tag prefix wildcard":  {[]Handler{echo("echo", "File*")}, nil, ErrWildcard},
		"output wildcard":      {[]Handler{changed(func(h *Handler) { h.Outputs = []string{"?"} })}, nil, ErrWildcard},
		"output is an ack":     {[]Handler{changed(func(h *Handler) { h.Outputs = []string{TagAck} })}, nil, nil},
		"output is an error":   {[]Handler{changed(func(h *Handler) { h.Outputs = []string{TagError} })}, nil, nil},
		"peers all":            {[]Handler{changed(func(h *Handler) { h.Peers = []string{"all"} })}, nil, ErrWildcard},
		"peer unknown":         {[]Handler{changed(func(h *Handler) { h.Peers = []string{"nobody"} })}, nil, nil},
		"tool without schemas": {[]Handler{changed(func(h *Handler) { h.Tool = true })}, nil, nil},
		"profile all":          {[]Handler{good}, profile("all"), ErrWildcard},
		"profile *":            {[]Handler{good}, profile("*"), ErrWildcard},
		"profile unknown":      {[]Handler{good}, profile("nobody"), nil},
		"profile names twice":  {[]Handler{good}, profile("echo", "echo"), nil},
		"profile without name": {[]Handler{good}, []Profile{{}}, nil},
		"profile twice":        {[]Handler{good}, []Profile{{Name: "a"}, {Name: "a"}}, nil},
		"retention unknown":    {[]Handler{good}, []Profile{{Name: "a", Retention: Retention{Policy: "sometimes"}}}, nil},
		"retention 0 days":     {[]Handler{good}, []Profile{{Name: "a", Retention: Retention{Policy: RetainDays}}}, nil},
		"days for ever":        {[]Handler{good}, []Profile{{Name: "a", Retention: Retention{Days: 3}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log := &memory{}
			_, err := New(Config{Handlers: tt.handlers, Profiles: tt.profiles, Journal: log, Audit: log})
			var ce *ConfigError
			if !errors.As(err, &ce) || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, cfg := range map[string]Config{
		"no journal":      {Audit: &memory{}},
		"no audit":        {Journal: &memory{}},
		"negative limit":  {Journal: &memory{}, Audit: &memory{}, MaxHops: -1},
		"schema wildcard": {Journal: &memory{}, Audit: &memory{}, Schemas: map[string]Validate{"*": exactly("")}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	tool := changed(func(h *Handler) { h.Tool = true })
	log := &memory{}
	if _, err := New(Config{Handlers: []Handler{tool}, Journal: log, Audit: log, Schemas: map[string]Validate{"Ping": exactly(""), "Echoed": exactly("")}}); err != nil {
		t.Errorf("a tool with both schemas: %v", err)
	}
}

// Two handlers for one tag: the profile's order decides, and the loader hears.
func TestFirstHandlerWins(t *testing.T) {
	requirements.Covers(t, "AP-4.2.1", "AP-4.2.2", "AP-2.1.8", "K-5")
	handlers := []Handler{echo("a", "Task", "Response"), echo("b", "Task", "Other")}
	for _, tt := range []struct {
		order []string
		want  []Route
		lost  Route
	}{
		{[]string{"a", "b"}, []Route{{"Other", "b"}, {"Response", "a"}, {"Task", "a"}}, Route{"Task", "b"}},
		{[]string{"b", "a"}, []Route{{"Other", "b"}, {"Response", "a"}, {"Task", "b"}}, Route{"Task", "a"}},
	} {
		table, shadowed, err := newTable(Profile{Name: "p", Handlers: tt.order}, handlers)
		if err != nil || !slices.Equal(table.Routes(), tt.want) || !slices.Equal(shadowed, []Route{tt.lost}) {
			t.Errorf("%v: %v, lost %v, %v", tt.order, table.Routes(), shadowed, err)
		}
	}
}

// drawProfiles draws handlers, profiles over them and what each may route.
func drawWorld(t *rapid.T) ([]Handler, []Profile) {
	tags := []string{"A", "B", "C", "D", "E", "F"}
	var handlers []Handler
	var names []string
	for i := range rapid.IntRange(1, 6).Draw(t, "handlers") {
		h := echo(fmt.Sprint("h", i), rapid.SliceOfNDistinct(rapid.SampledFrom(tags), 1, 4, rapid.ID).Draw(t, "tags")...)
		handlers, names = append(handlers, h), append(names, h.Name)
	}
	var profiles []Profile
	for i := range rapid.IntRange(1, 4).Draw(t, "profiles") {
		profiles = append(profiles, Profile{
			Name: fmt.Sprint("p", i), Handlers: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(t, "allowed"),
		})
	}
	return handlers, profiles
}

// Over random worlds: a message is handled exactly if a handler of its profile
// takes its tag, by the first such handler, and never twice; otherwise there
// is no route, no journal entry and one audit line.
func TestRoutingProperty(t *testing.T) {
	requirements.Covers(t, "AP-B.2", "AP-4.3.1", "AP-4.0.1", "AP-2.1.7")
	rapid.Check(t, func(rt *rapid.T) {
		handlers, profiles := drawWorld(rt)
		w := newWorld(t, Config{Handlers: handlers, Profiles: profiles})
		for range 5 {
			profile := rapid.SampledFrom(profiles).Draw(rt, "profile")
			tag := rapid.SampledFrom([]string{"A", "B", "C", "D", "E", "F", "G"}).Draw(rt, "tag")
			want := ""
			for _, name := range profile.Handlers {
				i := slices.IndexFunc(handlers, func(h Handler) bool { return h.Name == name })
				if slices.Contains(handlers[i].Tags, tag) {
					want = name
					break
				}
			}
			entries, rejects := len(w.log.entries), len(w.log.rejects)
			in := ingress(tag, "x")
			in.Profile = profile.Name
			out, err := w.Submit(rt.Context(), in)
			if want == "" {
				if !errors.Is(err, ErrRouteNotFound) || len(w.log.entries) != entries || len(w.log.rejects) != rejects+1 {
					rt.Fatalf("%s in %v: %v", tag, profile, err)
				}
				continue
			}
			if err != nil || out.Reply.Sender() != want || out.Hops != 1 || len(w.log.entries) != entries+2 {
				rt.Fatalf("%s in %v went to %q in %d hops, %v", tag, profile, out.Reply.Sender(), out.Hops, err)
			}
		}
	})
}

// However threads are spawned, none ever reaches what its parent does not.
func TestMonotonicityProperty(t *testing.T) {
	requirements.Covers(t, "AP-5.5.1", "AP-5.2.2", "AP-B.3", "APX-10")
	rapid.Check(t, func(rt *rapid.T) {
		handlers, profiles := drawWorld(rt)
		w := newWorld(t, Config{Handlers: handlers, Profiles: profiles})
		root, err := w.Open("root", profiles[0].Name)
		if err != nil {
			rt.Fatal(err)
		}
		threads := []*Thread{root}
		for i := range rapid.IntRange(1, 10).Draw(rt, "spawns") {
			parent := rapid.SampledFrom(threads).Draw(rt, "parent")
			var r Restriction
			switch rapid.IntRange(0, 2).Draw(rt, "how") {
			case 1:
				r = Keep(rapid.SliceOf(rapid.SampledFrom([]string{"A", "B", "C", "D", "E", "F", "G", "*"})).Draw(rt, "keep")...)
			case 2:
				wanted, _ := w.Table(rapid.SampledFrom(profiles).Draw(rt, "within").Name)
				var tags []string
				for _, route := range wanted.Routes() {
					tags = append(tags, route.Tag)
				}
				r = Keep(tags...)
			}
			child, err := parent.Spawn(fmt.Sprint("c", i), r)
			if err != nil {
				rt.Fatal(err)
			}
			threads = append(threads, child)
			for up := child; up.Parent() != nil; up = up.Parent() {
				if !up.Parent().Table().Covers(child.Table()) {
					rt.Fatalf("%s reaches %v, its ancestor %s only %v", child.ID(), child.Table().Routes(), up.Parent().ID(), up.Parent().Table().Routes())
				}
			}
		}
		for _, th := range threads {
			for _, tag := range []string{"A", "B", "C", "D", "E", "F"} {
				routed := slices.ContainsFunc(th.Table().Routes(), func(r Route) bool { return r.Tag == tag })
				_, err := th.Submit(rt.Context(), ingress(tag, "x"))
				if (err == nil) != routed {
					rt.Fatalf("%s in %s: routed %v, %v", tag, th.ID(), routed, err)
				}
			}
		}
	})
}

func TestThreadID(t *testing.T) {
	requirements.Covers(t, "AP-5.1.1", "K-25")
	for s, parent := range map[string]ThreadID{
		"root": "", "root.task-1": "root", "root.task-1.subtask-a.subtask-a": "root.task-1.subtask-a",
		"job[com.example.agent]": "", "job[a.b].x[c.d/e:1]": "job[a.b]",
	} {
		id, err := ParseThreadID(s)
		if err != nil || id.Parent() != parent || id.String() != s {
			t.Errorf("%s: parent %q, %v", s, id.Parent(), err)
		}
	}
	for _, s := range []string{"", ".", "a.", ".a", "a..b", "a b", "a[", "a]", "a[]", "[x]", "a[x]y", "a[x[y]]", "a*", "ä", "a\n", "a[b c]"} {
		if _, err := ParseThreadID(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
	if _, err := ThreadID("root").Child("a.b"); err == nil {
		t.Error("a segment with a dot is accepted")
	}
}

func FuzzThreadID(f *testing.F) {
	for _, s := range []string{"root.task-1", "a[b.c].d", "a..b", "a[[b]]", "]a.b["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseThreadID(s)
		if err != nil {
			return
		}
		parent := id.Parent()
		if parent == "" {
			return
		}
		if _, err := ParseThreadID(parent.String()); err != nil {
			t.Errorf("parent of %q is %q: %v", s, parent, err)
		}
		again, err := parent.Child(strings.TrimPrefix(s, parent.String()+"."))
		if err != nil || again != id {
			t.Errorf("%q does not rejoin: %q %v", s, again, err)
		}
	})
}
