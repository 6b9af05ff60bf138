// Package schemas has the commands that show job types and check documents against
// them.
package schemas

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/schemas"
)

// Cmd is lightwork schemas.
type Cmd struct {
	List schemasListCmd `cmd:"" help:"List job types."`
	Show schemasShowCmd `cmd:"" help:"Show what a job type takes and gives."`
}

type schemasListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists every job type.
func (c schemasListCmd) Run(s *app.Streams) error {
	if c.JSON {
		docs := []schemas.Document{}
		for _, sc := range schemas.All() {
			docs = append(docs, sc.Document())
		}
		return app.PrintJSON(s.Out, docs)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "JOB TYPE\tTITLE\tVERIFICATION\tBUILT-IN TOOL")
	for _, sc := range schemas.All() {
		agent, tool, _ := config.OwnTool(sc.ID)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s/%s\n", sc.ID, sc.Title, sc.VerificationMode, agent, tool)
	}

	return w.Flush()
}

type schemasShowCmd struct {
	ID     string `arg:"" help:"The job type, for example oa.sandbox_run.v1."`
	JSON   bool   `help:"Print the document as JSON."`
	Input  bool   `help:"Print the request's JSON Schema (2020-12)."`
	Output bool   `help:"Print the result's JSON Schema (2020-12)."`
}

// Run shows one job type.
func (c schemasShowCmd) Run(s *app.Streams) error {
	sc, ok := schemas.Lookup(c.ID)
	if !ok {
		return advice.Usage("lightwork schemas list shows them", "unknown job type %q", c.ID)
	}

	doc := sc.Document()
	switch {
	case c.Input:
		return app.PrintJSON(s.Out, sc.InputSchema())
	case c.Output:
		return app.PrintJSON(s.Out, sc.OutputSchema())
	case c.JSON:
		return app.PrintJSON(s.Out, doc)
	}

	fmt.Fprintf(s.Out, "%s  (%s)\n%s\n", doc.SchemaID, doc.VerificationMode, sc.Title)
	w := tabwriter.NewWriter(s.Out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nINPUT\tTYPE\tREQUIRED\t")
	for _, name := range slices.Sorted(maps.Keys(doc.Inputs)) {
		f := doc.Inputs[name]
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\n", name, f.Type, f.Required, f.Description)
	}

	fmt.Fprintln(w, "\nOUTPUT\tTYPE\t\t")
	for _, name := range slices.Sorted(maps.Keys(doc.Outputs)) {
		f := doc.Outputs[name]
		fmt.Fprintf(w, "%s\t%s\t\t%s\n", name, f.Type, f.Description)
	}

	if err := w.Flush(); err != nil {
		return err
	}
	agree := cmp.Or(sc.Agreement, "nothing; --adjudicate has a judge choose or merges them")
	if sc.Apart != "" {
		agree += "; not in: " + sc.Apart
	}
	if sc.ID == schemas.SandboxRun {
		agree += ", unless verification.compare_stdout is true (--compare-stdout)"
	}
	_, err := fmt.Fprintf(s.Out, "\nresults agree (--redundancy) in: %s\n", agree)
	return err
}
