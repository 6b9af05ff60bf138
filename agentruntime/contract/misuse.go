package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	maxMisusedTools = 64
	maxMisuses      = 6 // of one tool
)

// misuse calls every tool with inputs that break its schema; none may run.
func (p *player) misuse(string) error {
	calls := 0
	for _, t := range p.tools[:min(len(p.tools), maxMisusedTools)] {
		if agentID, _, ok := t.ToolID.Split(); !ok || agentID != p.run.agent.ID {
			continue // no node would call it; a watch complains
		}
		for _, input := range breaking(t.InputSchema) {
			calls++
			if err := p.misuseOnce(t, input); err != nil {
				return fmt.Errorf("%s with input %s: %w", t.Name, clip(string(input)), err)
			}
		}
	}

	if calls == 0 {
		return skipError("no tool has a schema that an object of a simple kind breaks")
	}
	return nil
}

func (p *player) misuseOnce(t wire.Tool, input []byte) error {
	p.vars["$MISUSE"], p.vars["$TOOL"], p.vars["$INPUT"] = wire.NewID(), escape(string(t.ToolID)), string(input)
	err := p.say(`{"type":"core.tool.call","request_id":"$MISUSE","payload":{"call_id":"$MISUSE","tool_id":"$TOOL","input":$INPUT}}`)
	if err != nil {
		return err
	}
	_, err = p.find(`{"type":"agent.tool.result","payload":{"call_id":"$MISUSE","status":"failed","error":{"code":"`+wire.CodeInvalidInput+`"}}}`,
		time.Now().Add(p.limit))
	return err
}

// breaking makes inputs that the schema refuses, by the rules that every
// validator knows: something required, unknown or of a wrong type.
func breaking(doc json.RawMessage) []json.RawMessage {
	schema, err := toolschema.Compile(doc)
	if err != nil {
		return nil
	}
	var shape struct {
		Properties map[string]json.RawMessage
	}
	_ = json.Unmarshal(doc, &shape) // a schema without properties has none to misuse
	candidates := []string{`{}`, `{"lightwork_contract_unknown":1}`}
	names := make([]string, 0, len(shape.Properties))
	for name := range shape.Properties {
		names = append(names, name)
	}
	slices.Sort(names)

	for _, name := range names {
		for _, value := range []string{`null`, `[[]]`, `"\u0000"`} {
			candidates = append(candidates, fmt.Sprintf(`{%s:%s}`, compact(name), value))
		}
	}

	var broken []json.RawMessage
	for _, c := range candidates {
		if len(broken) < maxMisuses && schema.Validate(json.RawMessage(c)) != nil {
			broken = append(broken, json.RawMessage(c))
		}
	}

	return broken
}
