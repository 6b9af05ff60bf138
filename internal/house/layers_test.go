package house

import (
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// layers are the protocols of a node from the market inwards, and the rooms that
// speak each.
var layers = []struct {
	name  string
	rooms []string
	// carries is the one other layer that its rooms may link: messages are
	// payloads of the pipeline.
	carries string
}{
	{"market", []string{"relay", "relay/nip01", "relay/server", "relay/exchange", "provider", "buyer", "receipts"}, ""},
	{"pipeline", []string{"agentruntime/pipeline", "agentruntime/routing", "agentruntime/curator", "agentruntime/thinker"}, ""},
	{"process", []string{"agentruntime/supervisor", "agentruntime/agent", "agentruntime/guard"}, ""},
	{"message", []string{"agentruntime/message"}, "pipeline"},
}

// TestLayers: what speaks one of the protocols links nothing that speaks another.
// Only a program puts them together, so that each can be read, tested and replaced
// without the rest; what agents say lies inside the pipeline's payloads.
func TestLayers(t *testing.T) {
	requirements.Covers(t, "M-1")
	all := packages(t)
	for _, layer := range layers {
		for _, room := range layer.rooms {
			deps := all[room].Deps
			if len(deps) == 0 {
				t.Errorf("no room %s", room)
			}
			if nostr := slices.ContainsFunc(deps, func(d string) bool { return strings.HasPrefix(d, "github.com/nbd-wtf/go-nostr") }); nostr && layer.name != "market" {
				t.Errorf("%s is of the %s, and links Nostr", room, layer.name)
			}
			for _, other := range layers {
				if other.name == layer.name || other.name == layer.carries {
					continue
				}
				for _, r := range other.rooms {
					if slices.Contains(deps, module+r) {
						t.Errorf("%s is of the %s, and links %s of the %s", room, layer.name, r, other.name)
					}
				}
			}
		}
	}
	if !slices.Contains(all["agentruntime/message"].Deps, module+"agentruntime/pipeline") {
		t.Error("messages are not the pipeline's")
	}
}
