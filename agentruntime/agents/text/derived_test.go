package text

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestSchemasAreDerived: what a tool registers, and "tools describe" prints, is
// made of the Go type of its request; what does not fit never reaches the tool.
func TestSchemasAreDerived(t *testing.T) {
	requirements.Covers(t, "AP-9.2.1", "AP-9.2.2", "AP-9.2.3")
	s := start(t)
	tools, err := s.Tools(ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, typ := range map[string]reflect.Type{
		ToolCodeChunk: reflect.TypeFor[schemas.CodeChunkRequest](), ToolRerank: reflect.TypeFor[schemas.RerankRequest](),
		ToolEmbedding: reflect.TypeFor[schemas.EmbeddingRequest](),
	} {
		i := slices.IndexFunc(tools, func(info supervisor.ToolInfo) bool { return info.Name == name })
		if i < 0 {
			t.Errorf("no tool %s", name)
			continue
		}
		var doc struct {
			Properties map[string]struct{ Description string } `json:"properties"`
		}
		if err := json.Unmarshal(tools[i].InputSchema, &doc); err != nil {
			t.Fatal(err)
		}
		for field := range typ.Fields() {
			member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			p, ok := doc.Properties[member]
			if !ok || p.Description == "" {
				t.Errorf("%s: field %s is not described", name, member)
			}
			delete(doc.Properties, member)
		}
		if len(doc.Properties) != 0 {
			t.Errorf("%s: the schema has more than the type: %v", name, doc.Properties)
		}
		_, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: name, Input: []byte(`{"unknown":1}`), CausationID: "d"})
		var failed *supervisor.Error
		if !errors.As(err, &failed) || failed.Code != wire.CodeInvalidInput || failed.FromAgent {
			t.Errorf("%s: got %v, from the agent: %v", name, err, failed != nil && failed.FromAgent)
		}
	}
}
