package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	// maxInline is the size of an output above which the large parts of its content
	// are moved to files.
	maxInline = 1 << 20
	// largePart is the least size of a part that is moved to a file.
	largePart = 64 << 10
)

// callResult is the server's result of tools/call.
type callResult struct {
	Content    []jsontext.Value `json:"content"`
	Structured jsontext.Value   `json:"structuredContent"`
	IsError    bool             `json:"isError"`
	ResultType string           `json:"resultType"` // "" or "complete", or it wants input
}

// item is one piece of content, with the members that are passed on; Type
// determines which are set.
type item struct {
	Type        string         `json:"type"`
	Text        *string        `json:"text,omitempty"`
	MIMEType    string         `json:"mimeType,omitempty"`
	Data        string         `json:"data,omitempty"` // base64
	URI         string         `json:"uri,omitempty"`
	Name        string         `json:"name,omitempty"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Size        jsontext.Value `json:"size,omitempty"`
	Resource    *resource      `json:"resource,omitempty"`
	Artifact    *artifact      `json:"artifact,omitempty"` // replaces Text or Data
}

// resource is the content of an embedded resource.
type resource struct {
	URI      string    `json:"uri"`
	MIMEType string    `json:"mimeType,omitempty"`
	Text     *string   `json:"text,omitempty"`
	Blob     string    `json:"blob,omitempty"` // base64
	Artifact *artifact `json:"artifact,omitempty"`
}

// result converts the server's result to the output of the call.
func (h *host) result(t *remoteTool, raw json.RawMessage) (any, error) {
	var r callResult
	if err := jsonv2.Unmarshal(raw, &r); err != nil {
		return nil, invalidOutput("the server's result is malformed")
	}

	switch {
	case r.ResultType != "" && r.ResultType != "complete":
		return nil, agent.Fail(wire.CodeFailed, "the server requests a user or a model, which this host does not provide")
	case r.IsError:
		return nil, toolError(&r)
	case t.structured():
		// Pass on its bytes, so that no number changes.
		if r.Structured.Kind() != '{' {
			return nil, invalidOutput("the server's result has no structured content")
		}
		return json.RawMessage(r.Structured), nil
	}

	content := make([]*item, 0, len(r.Content))
	for _, doc := range r.Content {
		it, err := parseItem(doc)
		if err != nil {
			return nil, err
		}
		content = append(content, it)
	}

	if len(raw) > maxInline {
		if err := h.moveOut(content); err != nil {
			return nil, err
		}
	}

	return map[string]any{"content": content}, nil
}

func invalidOutput(format string, args ...any) *agent.Error {
	return agent.Fail(wire.CodeInvalidOutput, fmt.Sprintf(format, args...))
}

// toolError returns the text of a failed call as an error.
func toolError(r *callResult) error {
	var texts []string
	for _, doc := range r.Content {
		if it, err := parseItem(doc); err == nil && it.Type == "text" {
			texts = append(texts, *it.Text)
		}
	}
	text := strings.Join(texts, "\n")
	if strings.TrimSpace(text) == "" {
		text = "the tool failed"
	}
	return agent.Fail(wire.CodeFailed, text)
}

// parseItem keeps the members that belong to the item's type.
func parseItem(doc jsontext.Value) (*item, error) {
	var in item
	if err := jsonv2.Unmarshal(doc, &in); err != nil {
		return nil, invalidOutput("malformed content")
	}

	switch {
	case in.Type == "text" && in.Text != nil:
		return &item{Type: in.Type, Text: in.Text}, nil
	case (in.Type == "image" || in.Type == "audio") && isBase64(in.Data):
		return &item{Type: in.Type, MIMEType: in.MIMEType, Data: in.Data}, nil
	case in.Type == "resource_link" && in.URI != "":
		if k := in.Size.Kind(); k != '0' {
			in.Size = nil
		}
		return &item{
			Type: in.Type, URI: in.URI, Name: in.Name, Title: in.Title,
			Description: in.Description, MIMEType: in.MIMEType, Size: in.Size,
		}, nil
	case in.Type == "resource" && in.Resource != nil && isBase64(in.Resource.Blob):
		r := *in.Resource
		r.Artifact = nil
		return &item{Type: in.Type, Resource: &r}, nil
	}

	return nil, invalidOutput("content of type %q is malformed or not supported", in.Type)
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

// moveOut moves the large parts of content to files (OS-7.3.2, K-39).
func (h *host) moveOut(content []*item) error {
	for _, it := range content {
		var err error
		switch r := it.Resource; {
		case it.Text != nil:
			it.Artifact, err = h.file([]byte(*it.Text))
		case it.Data != "":
			it.Artifact, err = h.fileBase64(it.Data)
		case r != nil && r.Text != nil:
			r.Artifact, err = h.file([]byte(*r.Text))
		case r != nil:
			r.Artifact, err = h.fileBase64(r.Blob)
		}

		if err != nil {
			return err
		}
		if it.Artifact != nil {
			it.Text, it.Data = nil, ""
		}
		if r := it.Resource; r != nil && r.Artifact != nil {
			r.Text, r.Blob = nil, ""
		}
	}

	return nil
}

func (h *host) fileBase64(text string) (*artifact, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, invalidOutput("malformed base64")
	}
	return h.file(data)
}

// file returns nil for data that is small enough to stay inline.
func (h *host) file(data []byte) (*artifact, error) {
	if len(data) < largePart {
		return nil, nil
	}
	a, err := h.files.put(data)
	if err != nil {
		h.log.Error("write artifact", "err", err)
		return nil, agent.Fail(wire.CodeOutputTooLarge, "the output is too large and could not be written to a file")
	}
	return a, nil
}
