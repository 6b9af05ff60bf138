// Package thinker is the agent that thinks: a handler whose work is a
// conversation with a language model (AP-11). What kind of agent it is, its
// configuration says alone.
//
// The loop is all in messages. A task comes in, a question goes to the model's
// handler; calls of tools that come back go to the tools' handlers one after
// the other, their answers into the next question, until the model answers with
// text or the iterations are used up. Where a message may go, the thread's
// table decides, not the conversation: the loop copies bytes, and nothing that
// a task, a tool or the model writes makes a route.
//
// Between two messages the conversation is kept here, by thread. It cannot
// travel in the payloads: a tool gets the arguments and nothing else, and
// would have to be trusted to give the rest back unchanged. Nor is it durable:
// the flow of messages it belongs to ends with the process too, and the task is
// then begun anew.
package thinker

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Agent is a type of agent: all of it is configuration (AP-11.2.1, AP-12.3.1).
type Agent struct {
	// Prompt names the blocks of the system prompt: "a & b".
	Prompt string `yaml:"prompt"`
	// Model is the endpoint's name of it. Empty: the endpoint's default.
	Model string `yaml:"model"`
	// MaxTokens bounds each answer of the model, MaxIterations the questions
	// that one task may take. Both are required.
	MaxTokens     int `yaml:"max_tokens"`
	MaxIterations int `yaml:"max_iterations"`
	// Temperature, TopP and Seed are left to the endpoint where they are nil.
	Temperature *float64 `yaml:"temperature"`
	TopP        *float64 `yaml:"top_p"`
	Seed        *int64   `yaml:"seed"`
}

func (a Agent) sampling() chat.Sampling {
	return chat.Sampling{MaxTokens: a.MaxTokens, Temperature: a.Temperature, TopP: a.TopP, Seed: a.Seed}
}

// Tool is a handler that the model may call.
type Tool struct {
	// Name is what the model calls it: at most 64 letters, digits, _ and -.
	Name        string
	Description string
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage
	// Check is what the pipeline validates Tag with. The pipeline would refuse
	// the same bytes, but it does not tell the sender; so we ask before, and
	// the model learns what is wrong. Nil accepts.
	Check pipeline.Validate
	// Handler gets the calls, under Tag, and replies under one of Answers.
	Handler, Tag string
	Answers      []string
}

// Config is a Thinker's whole world.
type Config struct {
	// Name and Description are the handler's.
	Name, Description string
	Agent             Agent
	// Prompts are the named blocks; see Agent.Prompt.
	Prompts map[string]string
	// Tag is the payload tag of its tasks. Empty: TagTask.
	Tag string
	// Model is the name of the model's handler.
	Model string
	// Tools are those of the profile the agent runs under, as far as they are
	// its peers. Any other name gives the model "no such tool".
	Tools []Tool
	// Timeout is how long one task may take. Zero: 5 min.
	Timeout time.Duration
	// MaxHistory bounds a conversation, in bytes of text. Zero: 2 MiB.
	MaxHistory int
	// Logger hears of messages that nobody waits for, never of contents. Nil:
	// none.
	Logger *slog.Logger
}

const (
	defaultTimeout    = 5 * time.Minute
	defaultMaxHistory = 2 << 20
)

// ConfigError says which part of a Config cannot be used.
type ConfigError struct {
	Agent string
	Part  string // as in the configuration: "prompt", "max_iterations", "tool calc"
	Err   error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("agent %s: %s: %v", e.Agent, e.Part, e.Err) }
func (e *ConfigError) Unwrap() error { return e.Err }

// validate checks everything but the prompt and the tools.
func (c *Config) validate() error {
	part, why := "", ""
	switch {
	case c.Name == "":
		part, why = "name", "is missing"
	case c.Model == "" || c.Model == c.Name:
		part, why = "model handler", "is missing, or the agent itself"
	case c.Agent.MaxTokens < 1:
		part, why = "max_tokens", "is not positive"
	case c.Agent.MaxIterations < 1:
		part, why = "max_iterations", "is not positive"
	case c.Timeout < 0 || c.MaxHistory < 0:
		part, why = "limits", "are negative"
	case len(c.Tools) > chat.MaxTools:
		part, why = "tools", fmt.Sprintf("are more than %d", chat.MaxTools)
	default:
		if err := c.Agent.sampling().Check(); err != nil {
			return &ConfigError{c.Name, "sampling", err}
		}
		return nil
	}

	return &ConfigError{c.Name, part, errors.New(why)}
}

// check refuses a tool that endpoints would not take, and one that is the
// model: tools do not think, and nothing but the loop asks it (AP-11.6.1).
func (t Tool) check(c Config) error {
	switch {
	case !chat.ValidToolName(t.Name):
		return errors.New("name is not 1 to 64 letters, digits, _ and -")
	case t.Handler == "" || t.Tag == "" || len(t.Answers) == 0:
		return errors.New("handler, tag or answers are missing")
	case t.Handler == c.Model || t.Tag == TagRequest:
		return errors.New("the model is no tool")
	case hashing.Check(t.Schema) != nil:
		return errors.New("schema is no JSON")
	}

	for _, tag := range t.Answers {
		if tag == TagResponse || tag == c.Tag {
			return fmt.Errorf("answers with %s, which is the agent's own", tag)
		}
	}
	return nil
}
