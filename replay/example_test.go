package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/replay"
)

// A session of one call is written, and checked as a stranger would.
func ExampleWriter() {
	at := replay.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	var file bytes.Buffer
	w := replay.NewWriter(&file)
	for _, line := range []replay.Line{
		&replay.ReplayHeader{Producer: "example@1", CreatedAt: at},
		&replay.SessionStart{T: at, SessionID: "s-1", PolicyBundleID: "none"},
		&replay.ToolCall{T: at, ID: "tc_1", Tool: "example/add", Params: json.RawMessage(`{"a":1,"b":2}`), StepID: "step-1"},
		&replay.ToolResult{T: at, ID: "tc_1", OutputHash: hashing.Bytes([]byte(`3`)), LatencyMs: 1},
		&replay.SessionEnd{T: at, Status: replay.SessionSuccess, Confidence: 1, TotalToolCalls: 1, TotalLatencyMs: 1},
	} {
		if err := w.Write(line); err != nil {
			fmt.Println(err)
			return
		}
	}
	hashes, err := w.Close()
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := replay.Check(&file, replay.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found.SessionID, found.Status, found.ToolCalls, found.Trajectory == hashes.Trajectory)
	// Output:
	// s-1 Success 1 true
}
