package demo

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/examples"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// demoAgent does the demo's job where nothing confines commands. It hosts a tool in
// WebAssembly.
var demoAgent = &config.SetupAgent{Dir: "agents/embed", ID: "com.example.embed", Tool: "embed"}

// installDemoAgent makes the agent's folder and approves it, as an operator would.
func installDemoAgent(c *node.Node) error {
	dir := c.Path(demoAgent.Dir)
	tools, err := fs.Sub(examples.Embed, "wasm")
	if err != nil {
		return err
	}
	doc, err := json.MarshalIndent(manifest.Manifest{
		ID: demoAgent.ID, Name: "Embed", Version: "1.0.0", Description: "Counts words, by a tool in WebAssembly.",
		Source: &manifest.Source{GitURL: "https://git.example.com/embed"},
		// By a link beside it: an entrypoint is split at blanks, which the program's path may have.
		Entrypoint:  manifest.Entrypoint{Type: "command", Value: "./lightwork agent wasm tools"},
		Permissions: []string{}, Capabilities: []string{"tools"},
	}, "", "  ")
	if err != nil {
		return err
	}
	err = errors.Join(
		os.MkdirAll(dir, 0o700),
		os.CopyFS(filepath.Join(dir, "tools"), tools),
		os.Symlink(display.Self(), filepath.Join(dir, "lightwork")),
		os.WriteFile(filepath.Join(dir, manifest.FileName), append(doc, '\n'), 0o600),
	)
	if err != nil {
		return err
	}

	_, m, err := node.AgentsOf(c).Find(demoAgent.ID)
	if err != nil {
		return err
	}
	approvals, err := manifest.OpenApprovals(node.AgentsOf(c).Dir("approvals"))
	if err != nil {
		return err
	}
	_, err = approvals.Approve(dir, m, nil, time.Now())
	return err
}
