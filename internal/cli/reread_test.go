package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestReread: a running node reads its organism again, while a model that the
// script holds back answers a thread of the one before.
func TestReread(t *testing.T) {
	requirements.Covers(t, "AP-12.4.1", "AP-12.4.2")
	asked, answer := make(chan struct{}), make(chan struct{})
	var dir string
	var endpoint *scripted.Endpoint
	endpoint = scripted.New(
		func(w http.ResponseWriter, r *http.Request) {
			close(asked)
			select {
			case <-answer:
			case <-r.Context().Done():
				return
			}
			scripted.Stream(scripted.Events(chat.Message{
				Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{scripted.Call("1", "clerk", `{"question":"greet {\"name\":\"Ada\"}"}`)},
			}, "tool_calls")...)(w, r)
		},
		func(w http.ResponseWriter, r *http.Request) { // says whether the clerk had the greeting
			words, all := "nobody was greeted", endpoint.Requests()
			if strings.Contains(string(all[len(all)-1].Body), "Hello, Ada!") {
				words = "Ada was greeted"
			}
			scripted.Stream(scripted.Events(chat.Message{Role: chat.RoleAssistant, Content: words}, "stop")...)(w, r)
		},
	)
	mux := http.NewServeMux()
	mux.Handle("/v1/", endpoint)
	mux.HandleFunc("/asked", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-asked:
		case <-r.Context().Done():
		}
	})
	release := sync.OnceFunc(func() { close(answer) })
	mux.HandleFunc("/answer", func(http.ResponseWriter, *http.Request) { release() })
	// 404 until the node's log has the line.
	mux.HandleFunc("/logged", func(w http.ResponseWriter, r *http.Request) {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if line, bad := regexp.Compile(r.URL.RawQuery); err != nil || bad != nil || !line.Match(log) {
			http.NotFound(w, r)
		}
	})
	model := httptest.NewServer(mux)
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/reread.txtar"},
		Setup: func(e *testscript.Env) error { dir = e.WorkDir; e.Setenv("MODEL", model.URL); return nil },
	})
}
