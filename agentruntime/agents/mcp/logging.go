package mcp

//lint:file-ignore SA1019 MCP's logging is deprecated, and what servers of today have

import (
	"context"
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	// logLevel is the lowest level of the log messages that the server should send.
	logLevel     = sdk.LoggingLevel("info")
	metaLogLevel = sdk.MetaKeyLogLevel
)

// askForLogs sets the level on a server of an older protocol version; in newer
// versions every call carries it.
func (h *host) askForLogs(ctx context.Context, hello *sdk.InitializeResult) {
	if h.modern || hello.Capabilities == nil || hello.Capabilities.Logging == nil {
		return
	}
	if err := h.client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: logLevel}); err != nil {
		h.log.Warn("set the server's log level", "err", wire.SafeText(err.Error()))
	}
}

// logMessage adds a log message to the stream of the running call. If several calls
// run, the message could belong to another caller, so it goes only to the agent's
// log.
func (h *host) logMessage(params json.RawMessage) {
	var p struct {
		Level  string         `json:"level"`
		Logger string         `json:"logger"`
		Data   jsontext.Value `json:"data"`
	}
	if jsonv2.Unmarshal(params, &p) != nil {
		return
	}
	text := string(p.Data)
	if p.Data.Kind() == '"' {
		_ = jsonv2.Unmarshal(p.Data, &text)
	}
	if p.Logger != "" {
		text = p.Logger + ": " + text
	}
	text = wire.SafeText(p.Level + ": " + text)
	h.mu.Lock()
	defer h.mu.Unlock()

	if len(h.calls) != 1 {
		h.log.Debug("server log", "text", text)
		return
	}
	for _, run := range h.calls {
		run.put(note{wire.Log, text})
	}
}
