package node

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/agentruntime/analysis/code"
	"github.com/lightwork-market/lightwork/internal/hardware"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// hardwareHere is what the announcement says of this machine.
func hardwareHere(ctx context.Context) provider.Hardware {
	h := hardware.Detect(ctx, os.DirFS("/"))
	return provider.Hardware{MemoryGB: h.MemoryGB, GPUType: h.GPU, VRAMGB: h.VRAMGB}
}

// models are what does the offered jobs, by the name that results give it: a
// configured model, or the built-in program in its place. Of an agent that the
// operator has installed nobody here knows it.
func (c *Node) models() []string {
	var names []string
	for _, o := range c.Provider.Offers {
		name := map[schemas.ID]string{
			schemas.CodeChunkAnalysis: cmp.Or(c.Model.Name, code.Model),
			schemas.RetrievalRerank:   cmp.Or(c.Model.Name, analysis.RerankModel),
			schemas.Embedding:         cmp.Or(c.Model.Embed, analysis.EmbedModel),
			schemas.TextGeneration:    c.Model.Name,
		}[schemas.ID(o.Schema)]
		if o.Tool == "" && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	return names
}
