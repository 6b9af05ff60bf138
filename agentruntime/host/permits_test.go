package host

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// reach is what the test's agent says that it reached.
type reach struct{ Read, Write, TCP string }

// TestPermissionsBecomeReach: what an approval grants of a manifest, and nothing
// else of it, is what the running process can read, write and connect to, and
// which tools of others its node lets it have. The route itself is in a test of
// the program (messages.txtar).
func TestPermissionsBecomeReach(t *testing.T) {
	requirements.Covers(t, "M-8", "K-9")
	texts, tcp := t.TempDir(), listener(t)
	if err := os.WriteFile(filepath.Join(texts, "a"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, write, network := "filesystem:read:"+texts+"/**", "filesystem:write:"+texts+"/**", "network:egress:127.0.0.1"
	const greet = "com.example.other/greet"
	all := []string{read, write, network, permitInvoke + greet}
	for name, c := range map[string]struct {
		granted []string
		want    reach
	}{
		"nothing":  {nil, reach{"no", "no", "no"}},
		"to read":  {[]string{read}, reach{"yes", "no", "no"}},
		"to write": {[]string{write}, reach{"yes", "yes", "no"}},
		"network":  {[]string{network}, reach{"no", "no", "yes"}},
		"a tool":   {[]string{permitInvoke + greet}, reach{"no", "no", "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "reach", "reach")
			w.ask(t, all)
			m, err := manifest.Read(filepath.Join(w.dir, manifest.FileName))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.approvals.Approve(w.dir, m, c.granted, time.Now()); err != nil {
				t.Fatal(err)
			}
			w.StartAll(t.Context())
			if st := w.List()[0]; strings.HasPrefix(st.Confined, "not confined") {
				testclass.Unavailable(t, st.Confined)
			}
			out, failed := w.Call(t.Context(), CallRequest{
				AgentID: id, Tool: "reach", Input: fmt.Appendf(nil, `{"dir":%q,"tcp":%q}`, texts, tcp),
			}, func(CallEvent) {})
			if failed != nil {
				t.Fatal(failed)
			}
			var got reach
			if err := json.Unmarshal(out, &got); err != nil || got != c.want {
				t.Errorf("reached %+v, want %+v, %v", got, c.want, err)
			}
			if got, want := w.Permits(id, greet), slices.Contains(c.granted, permitInvoke+greet); got != want || w.Permits(id, "com.example.other/else") {
				t.Errorf("may use %s: %v, want %v", greet, got, want)
			}
		})
	}
}

// TestAnotherAgentsLinkOpensNothing: where another agent may write, a link can be its
// work, and leads this one nowhere.
func TestAnotherAgentsLinkOpensNothing(t *testing.T) {
	shared, secret := t.TempDir(), t.TempDir()
	models := filepath.Join(shared, "models")
	if err := os.Symlink(secret, models); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		granted []string // to the other agent
		starts  bool
	}{
		"may write there": {[]string{"filesystem:write:" + shared + "/**"}, false},
		"may read there":  {[]string{"filesystem:read:" + shared + "/**"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "reach", "reach")
			w.ask(t, []string{"filesystem:read:" + models + "/**"})
			w.grantAll(t, w.dir)
			other := filepath.Join(t.TempDir(), "other")
			install(t, other, "another")
			path := filepath.Join(other, manifest.FileName)
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			asked, err := json.Marshal(c.granted)
			if err != nil {
				t.Fatal(err)
			}
			doc = []byte(strings.NewReplacer(id, "com.example.other", `"permissions":[]`, `"permissions":`+string(asked)).Replace(string(doc)))
			if err := os.WriteFile(path, doc, 0o600); err != nil {
				t.Fatal(err)
			}
			w.grantAll(t, other)

			cfg := w.cfg
			cfg.Installed = append(slices.Clone(cfg.Installed), Installed{Dir: other, Manual: true})
			h := New(cfg)
			err = h.Start(t.Context(), id)
			if err == nil && strings.HasPrefix(h.List()[0].Confined, "not confined") {
				testclass.Unavailable(t, h.List()[0].Confined)
			}
			if started := err == nil; started != c.starts || !started && !strings.Contains(err.Error(), models+" is a symbolic link") {
				t.Errorf("started: %v, %v", started, err)
			}
		})
	}
}

// TestNodesDataIsOutOfReach: whatever opens it, the system's own folders too, an agent
// of the node's user that could read the node's keys does not start.
func TestNodesDataIsOutOfReach(t *testing.T) {
	base := t.TempDir()
	data, texts := filepath.Join(base, "node", "data"), filepath.Join(base, "texts")
	link := filepath.Join(base, "link")
	for _, dir := range []string{filepath.Join(data, "provider"), texts} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		granted string
		private string
		uid     int
		starts  bool
	}{
		"a folder above it":           {"filesystem:read:" + base + "/**", data, 0, false},
		"all folders":                 {"filesystem:read:/", data, 0, false},
		"a folder in it":              {"filesystem:write:" + data + "/provider/**", data, 0, false},
		"a link to it":                {"filesystem:read:" + link, data, 0, false},
		"it lies in a system folder":  {"filesystem:read:" + texts, "/usr/share", 0, false},
		"a folder beside it":          {"filesystem:read:" + texts, data, 0, true},
		"it is not there yet":         {"filesystem:read:" + base, filepath.Join(base, "none"), 0, true},
		"the agent is another's user": {"filesystem:read:" + base, data, 12345, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "reach", "reach")
			w.ask(t, []string{c.granted})
			w.grantAll(t, w.dir)
			cfg := w.cfg
			cfg.Private = c.private
			cfg.Installed = slices.Clone(cfg.Installed)
			cfg.Installed[0].UID = c.uid
			h := New(cfg)
			_, err := h.spec(h.entries[id])
			if starts := err == nil; starts != c.starts || !starts && !strings.Contains(err.Error(), "the node's data is in ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// grantAll approves an agent with all that its manifest asks for.
func (w *world) grantAll(t *testing.T, dir string) {
	t.Helper()
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err == nil {
		_, err = w.approvals.Approve(dir, m, m.Permissions, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ask makes the agent's manifest ask for permissions.
func (w *world) ask(t *testing.T, permissions []string) {
	t.Helper()
	path := filepath.Join(w.dir, manifest.FileName)
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	doc["permissions"] = permissions
	if src, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, src, 0o600); err != nil {
		t.Fatal(err)
	}
}

// listener is an address where something listens.
func listener(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// reached is the tool of the test's agent: it tries.
func reached(dir, tcp string) reach {
	said := func(err error) string {
		if err != nil {
			return "no"
		}
		return "yes"
	}
	_, readErr := os.ReadFile(filepath.Join(dir, "a"))
	writeErr := os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)
	conn, dialErr := net.Dial("tcp", tcp)
	if dialErr == nil {
		conn.Close()
	}
	return reach{said(readErr), said(writeErr), said(dialErr)}
}
