package organisms

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// accountConfig is a node with one installed agent and an organism whose two
// profiles name accounts.
func accountConfig(t *testing.T, first, second string) (*config.Config, []host.Installed) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ref/" + manifest.FileName: `{"id": "com.example.ref", "name": "R", "version": "1.0.0", "description": "d",
			"source": {"git_url": "https://git.example.com/ref"}, "entrypoint": {"type": "command", "value": "true"},
			"permissions": [], "capabilities": ["tools"]}`,
		"organism.yaml": fmt.Sprintf(`organism: {name: o}
listeners:
  - {name: hello, payload_class: hello.Request, handler: com.example.ref/hello_world, description: "Says hello."}
profiles:
  one: {listeners: [hello], linux_user: %q}
  two: {listeners: [hello], linux_user: %q}
`, first, second),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := config.In(dir)
	c.Organism = "organism.yaml"
	return c, []host.Installed{{Dir: filepath.Join(dir, "ref")}}
}

// TestLinuxUser: an agent that a profile reaches runs under the profile's
// account, which the supervisor takes at the launch (TestAnotherUser).
func TestLinuxUser(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		testclass.Unavailable(t, "no account is called nobody: "+err.Error())
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	c, installed := accountConfig(t, "nobody", "")
	if err := SetAccounts(c, installed, log); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if installed[0].UID != 0 || !strings.Contains(said.String(), "linux_user=nobody") {
			t.Errorf("without root: uid %d, said %s", installed[0].UID, &said)
		}
	} else {
		requirements.Covers(t, "AP-8.2.1")
		if strconv.Itoa(installed[0].UID) != nobody.Uid || strconv.Itoa(installed[0].GID) != nobody.Gid || said.Len() > 0 {
			t.Errorf("uid %d, gid %d, said %s", installed[0].UID, installed[0].GID, &said)
		}
	}
	for _, tt := range []struct{ first, second, want string }{
		{"root", "", "root, which is no account of its own"},
		{"no-such-account", "", "unknown user"},
		{"nobody", "daemon", "runs as nobody for another profile"},
	} {
		c, installed := accountConfig(t, tt.first, tt.second)
		if err := SetAccounts(c, installed, log); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s and %s: %v", tt.first, tt.second, err)
		}
	}
	c, installed = accountConfig(t, "nobody", "nobody")
	installed[0].UID, installed[0].GID = 7, 7
	if err := SetAccounts(c, installed, log); err == nil || !strings.Contains(err.Error(), "uid and gid") {
		t.Errorf("two answers: %v", err)
	}
}
