package schemas

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// sandboxWith puts more fields into the minimal request: at the top, in
// sandbox, and in the first command.
func sandboxWith(top, sandbox, command string) string {
	comma := func(s string) string {
		if s != "" {
			return "," + s
		}
		return ""
	}
	return `{"sandbox":{"image_digest":"` + ones + `"` + comma(sandbox) + `},"commands":[{"cmd":"echo hello"` + comma(command) + `}]` + comma(top) + `}`
}

func TestSandboxRequestBounds(t *testing.T) {
	env := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"E%d":""`, i)
		}
		return `"env":{` + strings.TrimPrefix(b.String(), ",") + `}`
	}
	expected := func(body string) string { return `"verification":{"expected":{` + body + `}}` }
	for _, tt := range []struct {
		name          string
		top, box, cmd string
		field, reason string // empty field: accepted
	}{
		{name: "host", box: `"provider":"host"`},
		{name: "provider", box: `"provider":"firecracker"`, field: "sandbox.provider", reason: "docker, host"},
		{name: "provider case", box: `"provider":"Docker"`, field: "sandbox.provider", reason: "docker, host"},
		{name: "network", box: `"network_policy":"all"`, field: "sandbox.network_policy", reason: "none, localhost, full"},
		{name: "memory low", box: `"resources":{"memory_mb":15}`, field: "sandbox.resources.memory_mb", reason: "at least 16"},
		{name: "memory least", box: `"resources":{"memory_mb":16}`},
		{name: "memory most", box: `"resources":{"memory_mb":65536}`},
		{name: "memory high", box: `"resources":{"memory_mb":65537}`, field: "sandbox.resources.memory_mb", reason: "at most 65536"},
		{name: "no cpu", box: `"resources":{"cpus":0}`, field: "sandbox.resources.cpus", reason: "more than 0"},
		{name: "part of a cpu", box: `"resources":{"cpus":0.25}`},
		{name: "many cpus", box: `"resources":{"cpus":1e6}`, field: "sandbox.resources.cpus", reason: "at most 256"},
		{name: "no time", box: `"resources":{"timeout_secs":0}`, field: "sandbox.resources.timeout_secs", reason: "at least 1"},
		{name: "hour", box: `"resources":{"timeout_secs":3600}`},
		{name: "over an hour", box: `"resources":{"timeout_secs":3601}`, field: "sandbox.resources.timeout_secs", reason: "at most 3600"},
		{name: "no disk", box: `"resources":{"disk_mb":0}`, field: "sandbox.resources.disk_mb", reason: "at least 1"},

		{name: "NUL in command", cmd: `"workdir":"a\u0000b"`, field: "commands[0].workdir", reason: "NUL"},
		{name: "workdir", cmd: `"workdir":"src/app"`},
		{name: "absolute workdir", cmd: `"workdir":"/tmp"`},
		{name: "workdir above", cmd: `"workdir":"../x"`, field: "commands[0].workdir", reason: "without .."},

		{name: "env", top: `"env":{"PATH":"/bin","_x1":"é"}`},
		{name: "env name with digit", top: `"env":{"1A":"x"}`, field: "env.1A", reason: "name"},
		{name: "env name with =", top: `"env":{"A=B":"x"}`, field: `env["A=B"]`, reason: "name"},
		{name: "empty env name", top: `"env":{"":"x"}`, field: `env[""]`, reason: "name"},
		{name: "env NUL", top: `"env":{"A":"\u0000"}`, field: "env.A", reason: "NUL"},
		{name: "env type", top: `"env":{"A":1}`, field: "env.A", reason: "must be a string"},
		{name: "env at most", top: env(64)},
		{name: "env too many", top: env(65), field: "env", reason: "at most 64"},
		{name: "env value", top: `"env":{"A":"` + strings.Repeat("x", MaxEnvValueBytes+1) + `"}`, field: "env.A", reason: "at most 32768"},
		{name: "env value in bytes", top: `"env":{"A":"` + strings.Repeat("é", MaxEnvValueBytes/2+1) + `"}`, field: "env.A", reason: "at most 32768"},

		{name: "mount", top: `"repo":{"mount_path":"/src"}`},
		{name: "mount at root", top: `"repo":{"mount_path":"/"}`, field: "repo.mount_path", reason: "below /"},
		{name: "mount relative", top: `"repo":{"mount_path":"src"}`, field: "repo.mount_path", reason: "absolute"},
		{name: "mount unclean", top: `"repo":{"mount_path":"/a/../etc"}`, field: "repo.mount_path", reason: "clean"},

		{name: "expected", top: expected(`"exit_codes":[1],"artifacts":{"out/a.txt":"` + zeros + `"}`)},
		{name: "expected nothing", top: expected(``), field: "verification.expected", reason: "states no"},
		{name: "expected too many", top: expected(`"exit_codes":[0,0]`), field: "verification.expected.exit_codes", reason: "2 entries for 1"},
		{name: "expected bare hex", top: expected(`"artifacts":{"a":"` + zeros[7:] + `"}`), field: "verification.expected.artifacts.a", reason: "must match"},
		{name: "expected above", top: expected(`"artifacts":{"../a":"` + zeros + `"}`), field: `verification.expected.artifacts["../a"]`, reason: "without .."},
		{name: "expected unknown", top: expected(`"exitcodes":[0]`), field: "verification.expected.exitcodes", reason: "not a field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := lookup(t, SandboxRun).ParseRequest([]byte(sandboxWith(tt.top, tt.box, tt.cmd)))
			if tt.field != "" {
				refusal(t, err, tt.field, tt.reason)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSandboxCommandBounds(t *testing.T) {
	s := lookup(t, SandboxRun)
	with := func(commands ...string) []byte {
		return []byte(`{"sandbox":{"image_digest":"` + ones + `"},"commands":[` + strings.Join(commands, ",") + `]}`)
	}
	command := func(cmd string) string { return `{"cmd":"` + cmd + `"}` }
	many := strings.Split(strings.TrimSuffix(strings.Repeat(command("a")+";", MaxCommands), ";"), ";")
	if _, err := s.ParseRequest(with(many...)); err != nil {
		t.Errorf("%d commands: %v", MaxCommands, err)
	}
	_, err := s.ParseRequest(with(append(many, command("a"))...))
	refusal(t, err, "commands", "at most 64")
	if _, err := s.ParseRequest(with(command(strings.Repeat("x", MaxCommandBytes)))); err != nil {
		t.Errorf("8 KiB command: %v", err)
	}
	_, err = s.ParseRequest(with(command("a"), command(strings.Repeat("x", MaxCommandBytes+1))))
	refusal(t, err, "commands[1].cmd", "at most 8192")
	_, err = s.ParseRequest(with(command(strings.Repeat("é", MaxCommandBytes/2+1))))
	refusal(t, err, "commands[0].cmd", "at most 8192")
	_, err = s.ParseRequest(with(command(`a\u0000b`)))
	refusal(t, err, "commands[0].cmd", "NUL")
}

func TestRepoSource(t *testing.T) {
	archive := []byte{0x1f, 0x8b, 8, 0, 1, 2, 3}
	inline := InlineArchive(archive)
	r := parseRequest(t, SandboxRun, sandboxWith(`"repo":{"source":"`+inline+`"}`, "", ""))
	got, err := r.Value.(*SandboxRunRequest).Repo.Archive()
	if err != nil || string(got) != string(archive) {
		t.Errorf("archive %x, %v", got, err)
	}
	if got, err := (&SandboxRepo{}).Archive(); got != nil || err != nil {
		t.Errorf("no source: %x, %v", got, err)
	}
	for source, reason := range map[string]string{
		"git@example.com:repo.git":                 "must be an inline archive",
		"file:///etc/passwd":                       "must be an inline archive",
		"/etc":                                     "must be an inline archive",
		"data:application/x-tar;base64,H4sIAA==":   "must be an inline archive",
		strings.ToUpper(inline[:20]) + inline[20:]: "must be an inline archive",
		archivePrefix:                              "not gzip",
		archivePrefix + "AAAA":                     "not gzip",
		archivePrefix + "H4s":                      "not base64",
		archivePrefix + `H4s\nIAAA=`:               "not base64",
		archivePrefix + "H4sIAB==":                 "not base64",
	} {
		_, err := lookup(t, SandboxRun).ParseRequest([]byte(sandboxWith(`"repo":{"source":"`+source+`"}`, "", "")))
		refusal(t, err, "repo.source", reason)
	}
	_, err = lookup(t, SandboxRun).ParseRequest([]byte(sandboxWith(`"repo":{"git_ref":"main"}`, "", "")))
	refusal(t, err, "repo.git_ref", "no meaning")
}

func TestRepoFromGit(t *testing.T) {
	commit := strings.Repeat("0a", 20)
	of := func(source, ref string) string {
		return sandboxWith(`"repo":{"source":"`+source+`","git_ref":"`+ref+`"}`, "", "")
	}
	for _, source := range []string{bundlePrefix + base64.StdEncoding.EncodeToString([]byte("# v2 git bundle\n")), "https://example.com/a/b.git", "http://127.0.0.1:8080/a"} {
		r := parseRequest(t, SandboxRun, of(source, commit)).Value.(*SandboxRunRequest)
		err := r.CheckSource(nil)
		if _, isURL := r.Repo.URL(); isURL {
			refusal(t, err, "repo.source", "fetches no repositories from there")
			err = r.CheckSource(func(address string) bool { return address == source })
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
		}
		for _, ref := range []string{"main", commit[:39], strings.ToUpper(commit), commit + "00"} {
			_, err := lookup(t, SandboxRun).ParseRequest([]byte(of(source, ref)))
			refusal(t, err, "repo.git_ref", "full id of a commit")
		}
	}
	for source, reason := range map[string]string{
		bundlePrefix + "?":                                 "not base64",
		bundlePrefix + `AA\nAA`:                            "not base64",
		"https://user@example.com/a":                       "without a user",
		"https://example.com/a?x=1":                        "without a user",
		"https://example.com/a#b":                          "without a user",
		"https://example.com/":                             "a host and a path",
		"https:///a":                                       "a host and a path",
		"https://example.com/" + strings.Repeat("a", 2048): "a host and a path",
	} {
		_, err := lookup(t, SandboxRun).ParseRequest([]byte(of(source, commit)))
		refusal(t, err, "repo.source", reason)
	}
}

func TestCheckImage(t *testing.T) {
	request := func(provider string) *SandboxRunRequest {
		return parseRequest(t, SandboxRun, sandboxWith("", `"provider":"`+provider+`"`, "")).Value.(*SandboxRunRequest)
	}
	only := func(want string) func(string) bool { return func(d string) bool { return d == want } }
	for _, tt := range []struct {
		provider, host string
		registered     func(string) bool
		field          string
	}{
		{"docker", "", only(ones), ""},
		{"docker", "", only(zeros), "sandbox.image_digest"},
		{"docker", ones, nil, "sandbox.image_digest"}, // the host's digest is no image
		{"host", ones, nil, ""},
		{"host", zeros, only(ones), "sandbox.image_digest"}, // an image is no host
		{"host", "", only(ones), "sandbox.provider"},
	} {
		err := request(tt.provider).CheckImage(tt.host, tt.registered)
		if tt.field != "" {
			refusal(t, err, tt.field, "")
		} else if err != nil {
			t.Errorf("%s: %v", tt.provider, err)
		}
	}
	odd := &SandboxRunRequest{Sandbox: Sandbox{Provider: "wasm"}}
	refusal(t, odd.CheckImage(ones, only(ones)), "sandbox.provider", "docker, host")
}
