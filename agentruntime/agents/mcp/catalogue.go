package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	maxTools       = 256     // the node's limit
	maxPages       = 64      // of the server's list
	maxListBytes   = 3 << 20 // of descriptions and schemas: they go in one frame
	maxDescription = 4 << 10
	maxServerName  = 1 << 10
)

// remoteTool is a tool as described by the server.
type remoteTool struct {
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema"`
	Annotations  struct {
		ReadOnlyHint   bool `json:"readOnlyHint"`
		IdempotentHint bool `json:"idempotentHint"`
	} `json:"annotations"`
	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// sideEffects is true unless the server says that the tool has none.
func (t *remoteTool) sideEffects() bool { return !t.Annotations.ReadOnlyHint }

// repeatable reports whether running a call twice has the same effect as running it
// once.
func (t *remoteTool) repeatable() bool {
	return t.Annotations.ReadOnlyHint || t.Annotations.IdempotentHint
}

// structured reports whether the server declares a schema for the output.
func (t *remoteTool) structured() bool { return present(t.OutputSchema) }

func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// listTools reads all pages of the server's list. A fault in one tool leaves out
// that tool only.
func listTools(ctx context.Context, session *sdk.ClientSession, c *conn, log *slog.Logger) ([]*remoteTool, error) {
	var all []*remoteTool
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		page, err := listPage(ctx, session, c, cursor)
		if err != nil {
			return nil, err
		}

		for _, doc := range page.Tools {
			t := new(remoteTool)
			err := jsonv2.Unmarshal(doc, t)
			switch {
			case err != nil || t.Name == "" || len(t.Name) > maxServerName:
				log.Warn("tool skipped", "reason", "malformed description")
			case seen[t.Name]:
				log.Warn("tool skipped", "tool", wire.SafeText(t.Name), "reason", "listed twice")
			case len(all) == maxTools:
				log.Warn("tools skipped", "reason", "too many", "limit", maxTools)
				return all, nil
			default:
				seen[t.Name] = true
				all = append(all, t)
			}
		}

		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}

	log.Warn("tools skipped", "reason", "too many pages", "limit", maxPages)
	return all, nil
}

type toolPage struct {
	Tools      []jsontext.Value `json:"tools"`
	NextCursor string           `json:"nextCursor"`
}

func listPage(ctx context.Context, session *sdk.ClientSession, c *conn, cursor string) (*toolPage, error) {
	ctx, want := capturing(ctx)
	_, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	raw := c.forget(want)
	if err != nil && raw == nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	page := new(toolPage)
	if err := jsonv2.Unmarshal(raw, page); err != nil {
		return nil, errors.New("list tools: malformed list")
	}
	return page, nil
}

// offer converts the server's tools to tools of the agent. Every tool that is left
// out, and every change to a tool, is logged.
func offer(tools []*remoteTool, log *slog.Logger, handler func(*remoteTool) agent.Handler) []agent.Tool {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}

	mapped := toolNames(names)
	offered := make([]agent.Tool, 0, len(tools))
	size, used := 0, map[string]bool{}
	for _, t := range tools {
		log := log.With("tool", wire.SafeText(t.Name))
		name := mapped[t.Name]
		if used[name] {
			log.Warn("tool skipped", "reason", "another tool has its name")
			continue
		}
		tool, err := adapt(t, log)
		if err != nil {
			log.Warn("tool skipped", "reason", wire.SafeText(err.Error()))
			continue
		}
		size += len(tool.Description) + len(tool.InputSchema) + len(tool.OutputSchema)
		if size > maxListBytes {
			log.Warn("tools skipped", "reason", "descriptions and schemas are too large together", "limit", maxListBytes)
			break
		}
		if name != t.Name {
			log.Warn("tool renamed", "name", name)
		}
		used[name] = true
		tool.Name, tool.Handler = name, handler(t)
		offered = append(offered, tool)
	}

	return offered
}

// adapt converts everything of a tool but its name and handler.
func adapt(t *remoteTool, log *slog.Logger) (agent.Tool, error) {
	if !present(t.InputSchema) {
		return agent.Tool{}, errors.New("no input schema")
	}
	if t.Execution.TaskSupport == "required" {
		return agent.Tool{}, errors.New("it runs only as a task, which this host does not support")
	}

	tool := agent.Tool{
		Description: description(t), SideEffects: t.sideEffects(), Tags: []string{"mcp"},
	}
	var err error
	if tool.InputSchema, err = adaptLogged(t.InputSchema, "input schema", log); err != nil {
		return agent.Tool{}, err
	}
	if !t.structured() {
		return tool, nil
	}

	var shape struct {
		Type jsontext.Value `json:"type"`
	}

	// Results in the runtime protocol must be objects.
	if jsonv2.Unmarshal(t.OutputSchema, &shape) != nil || string(shape.Type) != `"object"` {
		return agent.Tool{}, errors.New("output schema: its type is not object")
	}
	tool.OutputSchema, err = adaptLogged(t.OutputSchema, "output schema", log)
	return tool, err
}

func adaptLogged(doc jsontext.Value, what string, log *slog.Logger) (json.RawMessage, error) {
	adapted, notes, err := adaptSchema(json.RawMessage(doc))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for _, note := range notes {
		log.Info("schema adapted", "schema", what, "change", note)
	}
	return adapted, nil
}

// description strips control characters other than line ends.
func description(t *remoteTool) string {
	text := t.Description
	if text == "" {
		text = t.Title
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= maxDescription {
		return text
	}
	cut := maxDescription
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
