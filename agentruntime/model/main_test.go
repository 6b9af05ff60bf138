package model

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
)

func TestMain(m *testing.M) {
	if os.Getenv(playEndpoint) != "" {
		os.Exit(serveScript())
	}
	goleak.VerifyTestMain(m)
}

// endpoint builds a client of an endpoint that plays the steps.
func endpoint(t *testing.T, cfg Config, steps ...scripted.Step) (*Client, *scripted.Endpoint) {
	t.Helper()
	script := scripted.New(steps...)
	cfg.BaseURL = serve(t, script) + "/v1"
	if cfg.Model == "" {
		cfg.Model = "configured"
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, script
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func hello() chat.Request {
	return chat.Request{Messages: []chat.Message{{Role: chat.RoleUser, Content: "hello"}}}
}
