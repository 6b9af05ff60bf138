package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
)

// rawServer is an MCP server that speaks lines of JSON without any library, so
// that it can say what no library would.
type rawServer struct {
	in      *bufio.Reader
	tools   []string // descriptions
	call    map[string]func(*rawCall)
	cancels []string // ids of canceled requests
	hello   string   // initialize, as it came
}

// rawCall is one call of a tool.
type rawCall struct {
	*rawServer
	line  string // as it came
	id    json.RawMessage
	args  json.RawMessage
	token json.RawMessage
}

// request is what the servers look at in a message.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name      string
		Arguments json.RawMessage
		Cursor    string
		RequestID json.RawMessage
		Meta      struct {
			ProgressToken json.RawMessage
		} `json:"_meta"`
	}
}

const helloResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"raw","version":"1"}}`

func playServer(name string) int {
	play, ok := servers[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "unknown server", name)
		return 2
	}
	play(&rawServer{in: bufio.NewReaderSize(os.Stdin, 1<<20), call: map[string]func(*rawCall){}})
	return 0
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (s *rawServer) reply(id json.RawMessage, result string) {
	say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (s *rawServer) refuse(id json.RawMessage, code int, message string) {
	text, _ := json.Marshal(message)
	say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, text)
}

// next is the next message; the process ends with the input.
func (s *rawServer) next() (line string, m request) {
	line, err := s.in.ReadString('\n')
	if err == io.EOF {
		os.Exit(0)
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		fmt.Fprintln(os.Stderr, "the host says", line, err)
		os.Exit(4)
	}
	return line, m
}

func (s *rawServer) tool(description string, run func(*rawCall)) {
	var d struct{ Name string }
	if err := json.Unmarshal([]byte(description), &d); err != nil {
		panic(err)
	}
	s.tools = append(s.tools, description)
	s.call[d.Name] = run
}

// plain adds a tool that takes anything.
func (s *rawServer) plain(name string, run func(*rawCall)) {
	s.tool(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name), run)
}

func (s *rawServer) serve() {
	for {
		line, m := s.next()
		switch m.Method {
		case "initialize":
			s.hello = line
			s.reply(m.ID, helloResult)
		case "tools/list":
			s.reply(m.ID, `{"tools":[`+strings.Join(s.tools, ",")+`]}`)
		case "tools/call":
			s.call[m.Params.Name](&rawCall{s, line, m.ID, m.Params.Arguments, m.Params.Meta.ProgressToken})
		case "logging/setLevel":
			s.reply(m.ID, "{}")
		case "notifications/cancelled":
			s.cancels = append(s.cancels, string(m.Params.RequestID))
		case "server/discover":
			s.refuse(m.ID, -32601, "method not found")
		}
	}
}

func (c *rawCall) text(text string) {
	doc, _ := json.Marshal(text)
	c.reply(c.id, `{"content":[{"type":"text","text":`+string(doc)+`}]}`)
}

// raw answers with the result in the arguments.
func (c *rawCall) raw() {
	var in struct{ Result json.RawMessage }
	_ = json.Unmarshal(c.args, &in)
	c.reply(c.id, string(in.Result))
}

var servers = map[string]func(*rawServer){
	"calls":     serveCalls,
	"hostile":   serveHostile,
	"changing":  serveChanging,
	"catalogue": serveCatalogue,
	"sdk":       serveSDK,
	"silent":    func(s *rawServer) { _, _ = io.Copy(io.Discard, s.in) },
	"dead":      func(*rawServer) { fmt.Fprintln(os.Stderr, "no config"); os.Exit(7) },
	"refusing": func(s *rawServer) {
		for {
			_, m := s.next()
			s.refuse(m.ID, -32603, "no\nlicence")
		}
	},
	"garbage": func(s *rawServer) { s.next(); say(`{"jsonrpc":"2.0","id":`); s.serve() },
	"noise": func(s *rawServer) {
		for range maxStray + 1 {
			say("hello, I am a server")
		}
		s.serve()
	},
	"giant": func(s *rawServer) { say("%s", strings.Repeat("x", maxMessageBytes+3)); s.serve() },
}

// serveCalls has the tools for what may go right.
func serveCalls(s *rawServer) {
	say("a greeting that does not belong on stdout")
	s.plain("line", func(c *rawCall) { c.text(c.line) })
	s.plain("hello", func(c *rawCall) { c.text(c.hello) })
	s.plain("raw", (*rawCall).raw)
	s.plain("long", func(c *rawCall) {
		c.reply(c.id, `{"content":[`+strings.Repeat(`{"type":"text","text":"`+strings.Repeat("x", largePart-1)+`"},`, 63)+`{"type":"text","text":"`+strings.Repeat("x", 52_000)+`"}]}`)
	})
	s.tool(`{"name":"typed","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]},"annotations":{"readOnlyHint":true}}`, (*rawCall).raw)
	s.plain("notes", func(c *rawCall) {
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3,"total":10,"message":"half\u0007"}}`, c.token)
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3.5}}`, c.token)
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"other","progress":1}}`)
		say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":"text"}}`)
		say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"a":1}}}`)
		c.text("ok")
	})
	s.plain("wait", func(c *rawCall) {
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, c.token, c.id)
	})
	s.plain("canceled", func(c *rawCall) { c.text(strings.Join(c.cancels, " ")) })
	s.plain("refuse", func(c *rawCall) {
		var in struct{ Code int }
		_ = json.Unmarshal(c.args, &in)
		c.refuse(c.id, in.Code, "why\x07\nnot")
	})
	s.plain("ask", func(c *rawCall) {
		var answers []string
		for _, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list", "ping"} {
			say(`{"jsonrpc":"2.0","id":"q","method":%q,"params":{}}`, method)
			answer, _ := c.next()
			answers = append(answers, strings.TrimSpace(answer))
		}
		c.text(strings.Join(answers, "\n"))
	})
	s.plain("process", func(c *rawCall) {
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			os.Exit(5)
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		doc, _ := json.Marshal(map[string]any{
			"pids": []int{os.Getpid(), child.Process.Pid}, "leader": syscall.Getpgrp() == os.Getpid(),
			"env": os.Environ(), "sees": strings.Contains(string(environ), agent.EnvToken),
		})
		c.text(string(doc))
	})
	s.serve()
}

// serveHostile has a tool for everything that ends the server's connection.
func serveHostile(s *rawServer) {
	s.plain("die", func(*rawCall) { os.Exit(3) })
	s.plain("garbage", func(*rawCall) { say(`{"jsonrpc":"2.0","id":1,"id":1}`) })
	s.plain("giant", func(c *rawCall) { c.text(strings.Repeat("x", maxMessageBytes)) })
	s.plain("flood", func(*rawCall) {
		for range 100_000 {
			say(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
		}
	})
	s.plain("deaf", func(*rawCall) { select {} })
	s.plain("storm", func(c *rawCall) {
		for range 20_000 {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, c.token)
			say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			fmt.Fprintln(os.Stderr, strings.Repeat("noise", 200))
		}
		c.text("ok")
	})
	s.plain("pid", func(c *rawCall) { c.text(fmt.Sprint(os.Getpid())) })
	s.serve()
}

// serveChanging announces other tools twice, and the second time it is true.
// Its next process has them from the start.
func serveChanging(s *rawServer) {
	more := func() { s.plain("new", func(c *rawCall) { c.text("new") }) }
	calls := 0
	s.plain("announce", func(c *rawCall) {
		if calls++; calls == 2 {
			more()
			_ = os.WriteFile("changed", nil, 0o600)
		}
		say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.text(fmt.Sprint(os.Getpid()))
	})
	if _, err := os.Stat("changed"); err == nil {
		more()
	}
	s.serve()
}

// serveCatalogue lists its tools on several pages.
func serveCatalogue(s *rawServer) {
	pages := map[string]string{
		"": `{"nextCursor":"2","tools":[
			{"name":"plain","description":"Does.\u0007","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","type":"object","additionalItems":false}},
			{"name":"a b","title":"Title","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"a/b","inputSchema":{"type":"object"}},
			7, {"name":""}, {"name":"plain","inputSchema":{"type":"object"}}]}`,
		"2": `{"nextCursor":"3","tools":[
			{"name":"noschema"}, {"name":"badschema","inputSchema":{"type":7}},
			{"name":"remote","inputSchema":{"$ref":"http://127.0.0.1/x"}},
			{"name":"list","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},
			{"name":"lookalike","inputSchema":{"type":"object"}},
			{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},
			{"name":"draft4","inputSchema":{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}}]}`,
		"3": `{"tools":[{"name":"last","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}`,
	}
	for {
		_, m := s.next()
		switch m.Method {
		case "initialize":
			s.reply(m.ID, helloResult)
		case "tools/list":
			s.reply(m.ID, strings.ReplaceAll(pages[m.Params.Cursor], "\n", ""))
		case "server/discover":
			s.refuse(m.ID, -32601, "method not found")
		default:
			if m.ID != nil {
				s.reply(m.ID, "{}")
			}
		}
	}
}
