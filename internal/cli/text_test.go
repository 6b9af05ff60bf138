package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestText sells what a language model writes.
func TestText(t *testing.T) {
	words := chat.Message{Role: chat.RoleAssistant, Content: "hello from the model"}
	model := httptest.NewServer(scripted.New(scripted.Stream(scripted.Events(words, "stop")...)))
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/text.txtar"},
		Setup: func(e *testscript.Env) error { e.Setenv("ENDPOINT", model.URL); return nil },
	})
}

// TestOneSchema: whoever is told what a job type takes is told the same.
func TestOneSchema(t *testing.T) {
	requirements.Covers(t, "M-6")
	var endpoint *scripted.Endpoint
	endpoint = scripted.New(func(w http.ResponseWriter, r *http.Request) { // says which schema it was offered
		var asked struct {
			Tools []chat.Tool `json:"tools"`
		}
		all := endpoint.Requests()
		if err := json.Unmarshal(all[len(all)-1].Body, &asked); err != nil || len(asked.Tools) != 1 {
			http.Error(w, "not one tool", http.StatusInternalServerError)
			return
		}
		words := chat.Message{Role: chat.RoleAssistant, Content: string(asked.Tools[0].Function.Parameters)}
		scripted.Stream(scripted.Events(words, "stop")...)(w, r)
	})
	model := httptest.NewServer(endpoint)
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/oneschema.txtar"},
		Setup: func(e *testscript.Env) error { e.Setenv("ENDPOINT", model.URL); return nil },
	})
}
