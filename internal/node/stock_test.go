package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestModelLooks: an endpoint is believed gone at the second failure, and back at
// the first answer. It is asked for nothing that costs.
func TestModelLooks(t *testing.T) {
	var answers []error
	s := &stock{models: map[string]bool{"oa.text_generation.v1": true}, routes: map[string]route{}, found: map[string]string{}}
	asked := 0
	s.ping = func(context.Context) error {
		asked++
		err := answers[0]
		answers = answers[1:]
		return err
	}
	gone := errors.New("connection refused")
	for _, c := range []struct {
		answers []error
		down    string
	}{
		{[]error{nil}, ""},
		{[]error{gone, nil}, ""},
		{[]error{gone, gone}, "connection refused"},
		{[]error{nil}, ""},
	} {
		answers, asked = c.answers, 0
		s.askModel(t.Context())
		if s.down != c.down || asked != len(c.answers) {
			t.Errorf("%v: down %q after %d questions", c.answers, s.down, asked)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answers = []error{gone}
	if s.askModel(ended); s.down != "" {
		t.Error("an interrupted question is taken for an answer")
	}
}

// TestBuiltInToolsFit: every job type's own tool takes its requests.
func TestBuiltInToolsFit(t *testing.T) {
	for _, s := range schemas.All() {
		agent, tool, ok := config.OwnTool(s.ID)
		if !ok {
			t.Errorf("%s: no tool", s.ID)
			continue
		}
		if why := toolMisfit(s, agent+"/"+tool, s.InputSchema(), s.OutputSchema()); why != "" {
			t.Error(why)
		}
		for _, other := range schemas.All() {
			if other.ID != s.ID && toolMisfit(other, "a/b", s.InputSchema(), s.OutputSchema()) == "" {
				t.Errorf("the tool of %s would be sold for %s", s.ID, other.ID)
			}
		}
	}
}

// TestToolchainLooks: what runs on the host's tools is not sold while they are others
// than the announced ones.
func TestToolchainLooks(t *testing.T) {
	const job = "oa.sandbox_run.v1"
	s := &stock{routes: map[string]route{job: {agent: agentsandbox.ID}}, found: map[string]string{}}
	other, failure := true, error(nil)
	s.toolchain = func() (bool, error) { return other, failure }
	s.lookAtTools()
	if why, unfit := s.tool(job); unfit || !strings.Contains(why, "toolchain has changed") {
		t.Errorf("withdrawn because of %q, unfit %v", why, unfit)
	}

	var told strings.Builder
	s.tell = NewSaleLog(slog.New(slog.NewTextHandler(&told, nil)), pageWords, nil)
	failure = errors.New("permission denied")
	if s.lookAtTools(); !s.onOtherTools() || !strings.Contains(told.String(), "permission denied") {
		t.Errorf("told %q", &told)
	}
	other, failure = false, nil
	if s.lookAtTools(); s.onOtherTools() {
		t.Error("what was brought back is still called another toolchain")
	}
}
