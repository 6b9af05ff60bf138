package reference

import (
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestTools(t *testing.T) {
	requirements.Covers(t, "OSX-18")
	tools := Tools()
	if len(tools) != len(ToolNames) {
		t.Fatalf("%d tools, %d names", len(tools), len(ToolNames))
	}
	for i, tool := range tools {
		if tool.Name != ToolNames[i] || tool.Handler == nil || tool.Description == "" {
			t.Errorf("tool %d is %q, want %q", i, tool.Name, ToolNames[i])
		}
		for _, doc := range [][]byte{tool.InputSchema, tool.OutputSchema} {
			if doc == nil {
				continue
			}
			if _, err := toolschema.Compile(doc); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
	}
	if !wire.ValidAgentID(ID) || !wire.ValidVersion(Version) {
		t.Errorf("%s %s", ID, Version)
	}
}
