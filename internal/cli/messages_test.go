package cli

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestMessages: agents' messages on a running node, with an agent in a process
// of its own.
func TestMessages(t *testing.T) {
	requirements.Covers(t, "M-10", "YE-O.1", "YE-O.4", "YE-E.1", "YE-E.2", "YE-E.3", "YE-E.4", "YE-E.5", "YE-E.6", "YE-E.7", "YE-E.9", "YE-L.1", "AP-7.1.2", "M-9", "M-8")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/messages.txtar"}})
}
