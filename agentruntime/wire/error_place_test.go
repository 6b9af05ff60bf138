package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestPlaceOfErrors: a tool's failure is in the payload, a protocol failure at
// the top level, and neither is in both.
func TestPlaceOfErrors(t *testing.T) {
	requirements.Covers(t, "K-14")
	const failure = `{"code":"tool.failed","message":"no","retryable":false}`
	message := func(typ, top, payload string) string {
		if top != "" {
			top = `,"error":` + top
		}
		return `{"v":1,"type":"` + typ + `","id":"1","ts":"2026-01-01T00:00:00Z"` + top + `,"payload":` + payload + `}`
	}
	result := `{"call_id":"c","status":"failed","error":` + failure + `}`
	m, err := Decode([]byte(message("agent.tool.result", "", result)), Agent)
	if err != nil || m.Error != nil || m.Payload.(*ToolResult).Error.Code != "tool.failed" {
		t.Errorf("a tool's failure: %+v, %v", m, err)
	}
	m, err = Decode([]byte(message("agent.error", failure, `{}`)), Agent)
	if err != nil || m.Error == nil {
		t.Errorf("a protocol failure: %+v, %v", m, err)
	}
	_, err = Decode([]byte(message("agent.tool.result", failure, result)), Agent)
	var de *DecodeError
	if !errors.As(err, &de) || de.Field != "error" || !strings.Contains(de.Reason, "one of them") {
		t.Errorf("both: %v", err)
	}
	m, err = Decode([]byte(message("core.tools.registered", "", `{"registered":[],"rejected":[{"tool_id":"a/b","error":`+failure+`}]}`)), Core)
	if err != nil || m.Error != nil || m.Payload.(*Registered).Rejected[0].Error == nil {
		t.Errorf("a registration that failed: %+v, %v", m, err)
	}
}
