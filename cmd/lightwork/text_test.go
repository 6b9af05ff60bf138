package main

import (
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
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
