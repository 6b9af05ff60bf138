package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// roles are what this binary can play besides running tests.
var roles = map[string]func(ctx context.Context, arg string) error{
	"reference": func(ctx context.Context, _ string) error {
		return reference.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	},
	"tools":    playTools,
	"family":   playFamily,
	"stubborn": playStubborn,
	"crash":    playCrash,
	"silent":   func(context.Context, string) error { select {} },
	"exit":     func(context.Context, string) error { return errors.New("at once") },
	"show":     playShow,
	"reach":    playReach,
	"mute":     playMute,
	"impostor": playImpostor,
	"bare":     playBare,
	"stranger": func(_ context.Context, token string) error { return knock("stranger", token) },
	"core":     func(ctx context.Context, dir string) error { return playCore(ctx, dir, agentSpec("family")) },
	"confined core": func(ctx context.Context, dir string) error {
		spec := agentSpec("family")
		spec.Confine = &guard.Confinement{Read: []string{"/"}, Write: []string{dir, "/dev/null"}}
		return playCore(ctx, dir, spec)
	},
}

// playTools is an agent whose tools misbehave.
func playTools(ctx context.Context, _ string) error {
	var sideEffects atomic.Int64
	tools := append(reference.Tools(), []agent.Tool{
		{Name: "count", Handler: func(context.Context, *agent.Call) (any, error) {
			return map[string]int64{"n": sideEffects.Add(1)}, nil
		}},
		{Name: "panic", Handler: func(context.Context, *agent.Call) (any, error) { panic("canary") }},
		{Name: "deaf", Handler: func(context.Context, *agent.Call) (any, error) { select {} }},
		{Name: "die", Handler: func(context.Context, *agent.Call) (any, error) {
			return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}},
		{Name: "leak", Handler: func(context.Context, *agent.Call) (any, error) {
			env, err := os.ReadFile("/proc/self/environ")
			return map[string]string{"env": string(bytes.ReplaceAll(env, []byte{0}, []byte(" ")))}, err
		}},
		{Name: "limits", Handler: func(context.Context, *agent.Call) (any, error) {
			var l syscall.Rlimit
			err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
			return map[string]uint64{"soft": l.Cur, "hard": l.Max}, err
		}},
		{Name: "hog", Handler: func(context.Context, *agent.Call) (any, error) {
			all := bytes.Repeat([]byte("x"), 512<<20)
			return map[string]int{"n": len(all)}, nil
		}},
		{Name: "fork", Handler: func(context.Context, *agent.Call) (any, error) {
			n := 0
			for range 100 {
				if err := exec.Command("sleep", "1000").Start(); err == nil {
					n++
				}
			}
			return map[string]int{"n": n}, nil
		}},
		{
			Name: "keeper", InputSchema: json.RawMessage(`{"type":"object","properties":{"password":{"type":"string","writeOnly":true}}}`),
			Handler: func(context.Context, *agent.Call) (any, error) { return map[string]bool{"kept": true}, nil },
		},
		{Name: "undeclared", Handler: func(context.Context, *agent.Call) (any, error) { return nil, nil }},
		{Name: "echo", Handler: func(_ context.Context, c *agent.Call) (any, error) {
			text := "x"
			return map[string]string{"r": c.RequestID, "c": c.CorrelationID, "d": c.CausationID}, errors.Join(
				c.Stream(wire.Log, text), c.Partial(map[string]int{"p": 1}))
		}},
	}...)
	return agent.Run(ctx, agent.Config{Version: reference.Version, Tools: tools, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// playFamily is the reference agent with two children, one of which has left
// the process group and become an orphan. Their pids are the first output.
func playFamily(ctx context.Context, _ string) error {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		return err
	}
	// The shell ends at once and leaves a sleep in a session of its own.
	runaway, err := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		return err
	}
	fmt.Println("pids", os.Getpid(), child.Process.Pid, strings.TrimSpace(string(runaway)))
	return reference.Run(ctx, nil)
}

// playStubborn does not end when asked to.
func playStubborn(context.Context, string) error {
	signal.Ignore(syscall.SIGTERM)
	err := reference.Run(context.Background(), nil)
	fmt.Println("ignoring the goodbye", err)
	select {}
}

func playCrash(ctx context.Context, _ string) error {
	s, err := agent.Connect(ctx, agent.Config{Version: reference.Version, Tools: reference.Tools()})
	if err != nil {
		return err
	}
	fmt.Println("registered", s.ID())
	os.Exit(3)
	return nil
}

// playReach is an agent that tries to reach what its input names, and says how
// each attempt ended.
func playReach(ctx context.Context, _ string) error {
	return agent.Run(ctx, agent.Config{Version: reference.Version, Tools: []agent.Tool{{
		Name: "reach", Handler: func(ctx context.Context, c *agent.Call) (any, error) {
			var in struct {
				Read, Write, TCP, UDP string
				Signal                int
			}
			if err := c.Decode(&in); err != nil {
				return nil, err
			}
			out := map[string]string{}
			_, err := os.ReadFile(in.Read)
			out["read"] = said(err)
			out["write"] = said(os.WriteFile(in.Write, []byte("x"), 0o600))
			for network, addr := range map[string]string{"tcp": in.TCP, "udp": in.UDP} {
				conn, err := net.Dial(network, addr)
				if err == nil {
					_, err = conn.Write([]byte("x"))
					conn.Close()
				}
				out[network] = said(err)
			}
			out["signal"] = said(syscall.Kill(in.Signal, 0))
			_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", in.Signal))
			out["environ"] = said(err)
			for way, try := range setIDWays(in.Write) {
				out["set id by "+way] = said(try())
			}
			return out, exec.CommandContext(ctx, "true").Run()
		},
	}, {
		Name: "reach_guard", Handler: func(context.Context, *agent.Call) (any, error) { return reachGuard(os.Getppid()) },
	}}})
}

// reachGuard tries what would end a guard or take it over, and harms it in no way.
func reachGuard(guard int) (map[string]string, error) {
	out := map[string]string{"signal": said(syscall.Kill(guard, 0))}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", guard))
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf(" of thread %d", len(out))
		out["signal"+name] = said(unix.Tgkill(guard, tid, 0))
		here := make([]byte, 1)
		there := []unix.RemoteIovec{{Base: 1, Len: 1}} // nothing is there
		_, err = unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &here[0], Len: 1}}, there, 0)
		if errors.Is(err, unix.EFAULT) {
			err = nil // nobody refused to look
		}
		out["memory"+name] = said(err)
	}
	return out, nil
}

// said is how an attempt ended.
func said(err error) string {
	if err == nil {
		return "reached"
	}
	return err.Error()
}

// playShow prints what an agent can see of itself, then serves.
func playShow(ctx context.Context, _ string) error {
	cmdline, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return err
	}
	fmt.Printf("cmdline %q\n", cmdline)
	for _, kv := range os.Environ() {
		fmt.Println("env", kv)
	}
	fmt.Fprintln(os.Stderr, "pgid", syscall.Getpgrp() == os.Getpid())
	s, err := agent.Connect(ctx, agent.Config{Version: reference.Version, Tools: reference.Tools()})
	if err != nil {
		return err
	}
	_, has := os.LookupEnv(agent.EnvToken)
	fmt.Println("token in environment after connecting:", has)
	return s.Serve(ctx)
}

// playMute registers and then says nothing more.
func playMute(context.Context, string) error {
	conn, err := net.Dial("unix", os.Getenv(agent.EnvSocketPath))
	if err != nil {
		return err
	}
	if err := say(conn, hello(os.Getenv(agent.EnvToken))); err != nil {
		return err
	}
	if err := say(conn, &wire.Register{Tools: []wire.Tool{}}); err != nil {
		return err
	}
	select {}
}

// playImpostor tries the other ways in before it goes the right one, and
// tries again after it.
func playImpostor(ctx context.Context, _ string) error {
	token := os.Getenv(agent.EnvToken)
	if err := knock("wrong token", strings.Repeat("A", 43)); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=stranger:"+token)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	s, err := agent.Connect(ctx, agent.Config{Version: reference.Version, Tools: reference.Tools()})
	if err != nil {
		return err
	}
	if err := knock("used token", token); err != nil {
		return err
	}
	return s.Serve(ctx)
}

// knock says hello with token and prints the answer.
func knock(who, token string) error {
	conn, err := net.Dial("unix", os.Getenv(agent.EnvSocketPath))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = say(conn, hello(token)) // core may have closed already
	in := frame.NewReader(conn, 0)
	p, err := in.Next()
	if err != nil {
		return err
	}
	m, err := wire.Decode(p, wire.Core)
	if err != nil {
		return err
	}
	_, end := in.Next()
	fmt.Println(who, "gets", m.Type(), m.Error.Code, "then", end != nil)
	return nil
}

func hello(token string) *wire.Hello {
	return &wire.Hello{
		SessionToken: token, AgentID: os.Getenv(agent.EnvAgentID), AgentVersion: reference.Version,
		Protocol: wire.ProtocolInfo{SupportedVersions: []int{1}, Capabilities: []string{}},
	}
}

func say(conn net.Conn, p wire.Payload) error {
	var buf bytes.Buffer
	if err := wire.EncodeFrame(&buf, &wire.Message{Payload: p}, 0); err != nil {
		return err
	}
	_, err := conn.Write(buf.Bytes())
	return err
}

// playCore is a node with one family of agents. It prints their pids as JSON
// and then waits to be killed.
func playCore(ctx context.Context, dir string, family Spec) error {
	pids := make(chan string, 1)
	s, err := New(Config{SocketDir: dir, OnLog: func(l LogLine) {
		if list, ok := strings.CutPrefix(l.Text, "pids "); ok {
			pids <- list
		}
	}})
	if err != nil {
		return err
	}
	if err := s.Start(ctx, family); err != nil {
		return err
	}
	doc, err := json.Marshal(strings.Fields(<-pids))
	if err != nil {
		return err
	}
	fmt.Println(string(doc))
	time.Sleep(time.Minute)
	return nil
}
