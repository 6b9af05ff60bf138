package thinker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrUnknown: a prompt names a block or a variable that does not exist.
var ErrUnknown = errors.New("is unknown")

// Variables of prompt blocks, in braces.
const (
	varTools = "tool_definitions"
	varName  = "agent_name"
)

// variable is {name}, or {{name}} for the text {name}. Other braces are text:
// prompts show JSON.
var variable = regexp.MustCompile(`\{\{[a-z][a-z0-9_]*\}\}|\{[a-z][a-z0-9_]*\}`)

// compose joins the named blocks of "a & b" with newlines.
func compose(prompt string, blocks map[string]string) (string, error) {
	var texts []string
	for label := range strings.SplitSeq(prompt, "&") {
		label = strings.TrimSpace(label)
		text, ok := blocks[label]
		if !ok {
			return "", fmt.Errorf("block %.80q %w", label, ErrUnknown)
		}
		if !utf8.ValidString(text) {
			return "", fmt.Errorf("block %.80q is no UTF-8", label)
		}
		texts = append(texts, text)
	}

	return strings.Join(texts, "\n"), nil
}

// variables lists what a text refers to.
func variables(text string) []string {
	var names []string
	for _, m := range variable.FindAllString(text, -1) {
		if !strings.HasPrefix(m, "{{") {
			names = append(names, m[1:len(m)-1])
		}
	}
	return names
}

// interpolate puts in values, once: a value that looks like a variable stays
// as it is, since tools may be described by strangers.
func interpolate(text string, values map[string]string) (string, error) {
	for _, name := range variables(text) {
		if _, ok := values[name]; !ok {
			return "", fmt.Errorf("variable {%.80s} %w", name, ErrUnknown)
		}
	}
	return variable.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "{{") {
			return m[1 : len(m)-1]
		}
		return values[m[1:len(m)-1]]
	}), nil
}

// systemPrompt composes and fills in. The tools are always in it (AP-9.2.4): at
// the end, where the blocks do not say otherwise.
func systemPrompt(c Config) (string, error) {
	text, err := compose(c.Agent.Prompt, c.Prompts)
	if err != nil {
		return "", err
	}
	if len(c.Tools) > 0 && !slices.Contains(variables(text), varTools) {
		text += "\n{" + varTools + "}"
	}
	definitions, err := toolDefinitions(c.Tools)
	if err != nil {
		return "", err
	}
	return interpolate(text, map[string]string{varTools: definitions, varName: c.Name})
}

func toolDefinitions(tools []Tool) (string, error) {
	if len(tools) == 0 {
		return "There are no tools.", nil
	}
	var b strings.Builder
	b.WriteString("Tools:")

	for _, t := range tools {
		var schema bytes.Buffer
		if err := json.Compact(&schema, t.Schema); err != nil {
			return "", fmt.Errorf("schema of tool %s: %w", t.Name, err)
		}
		fmt.Fprintf(&b, "\n- %s: %s\n  arguments: %s", t.Name, t.Description, schema.Bytes())
	}

	return b.String(), nil
}
