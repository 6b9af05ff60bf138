package sell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// A policy bundle is the manifest that jobs run under. It is never changed: what
// is new in the configuration makes another one, with another hash.
type PolicyCmd struct {
	List     policyListCmd     `cmd:"" help:"List the policy bundles that this provider has sold under, the last first."`
	Show     policyShowCmd     `cmd:"" help:"Print one: prices, limits, tools, tables, verification rules."`
	Pin      policyPinCmd      `cmd:"" help:"Sell under this one and no other, from the next start on."`
	Rollback policyRollbackCmd `cmd:"" help:"Pin the one that was sold under before the last."`
	Unpin    policyUnpinCmd    `cmd:"" help:"Sell under what the configuration says, from the next start on."`
}

// policyView is a bundle as --json shows it.
type policyView struct {
	ID      string    `json:"policy_bundle_id"`
	FirstAt time.Time `json:"first_used_at"`
	LastAt  time.Time `json:"last_started_at"`
	Jobs    int64     `json:"jobs"`
	Last    bool      `json:"last"` // what the provider runs under, or ran under last
	Pinned  bool      `json:"pinned"`
}

// policies lists the bundles, and says which is pinned.
func policies(ctx context.Context, store *node.Sales, c *node.Node) ([]policyView, error) {
	pin, err := c.PolicyPin().Read()
	if err != nil || store == nil {
		return []policyView{}, err
	}

	list, err := store.Policies(ctx)
	views := make([]policyView, len(list))
	for i, p := range list {
		views[i] = policyView{
			ID: p.ID.String(), FirstAt: p.FirstAt, LastAt: p.LastAt, Jobs: p.Jobs, Last: i == 0, Pinned: pin != nil && *pin == p.ID,
		}
	}

	return views, err
}

type policyListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists bundles.
func (p policyListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return withPolicies(ctx, s, g, func(_ *node.Node, _ *node.Sales, list []policyView) error {
		if p.JSON {
			return app.PrintJSON(s.Out, list)
		}
		w := app.NewTable(s.Out)
		fmt.Fprintln(w, "POLICY\tFIRST USED\tLAST STARTED\tJOBS\tNOTES")

		for _, v := range list {
			var notes []string
			if v.Last {
				notes = append(notes, "last")
			}
			if v.Pinned {
				notes = append(notes, "pinned")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", display.Short(v.ID), v.FirstAt.Local().Format(time.DateTime), v.LastAt.Local().Format(time.DateTime), v.Jobs, strings.Join(notes, ", "))
		}

		return w.Flush()
	})
}

type policyShowCmd struct {
	ID   string `arg:"" optional:"" help:"The bundle (id or its beginning); the last one if left out."`
	JSON bool   `help:"Print JSON, which it does without it too."`
}

// Run prints the manifest; its SHA-256 in canonical form is the id.
func (p policyShowCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return withPolicies(ctx, s, g, func(_ *node.Node, store *node.Sales, list []policyView) error {
		v, err := pickPolicy(list, p.ID)
		if err != nil {
			return err
		}
		id, err := hashing.ParseDigest(v.ID)
		if err != nil {
			return err
		}
		doc, err := store.Policy(ctx, id)
		if err != nil {
			return err
		}
		fmt.Fprintln(s.Out, display.PrettyJSON(doc))
		return nil
	})
}

type policyPinCmd struct {
	ID string `arg:"" help:"The bundle (id or its beginning)."`
}

// Run pins a bundle.
func (p policyPinCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return withPolicies(ctx, s, g, func(c *node.Node, _ *node.Sales, list []policyView) error {
		v, err := pickPolicy(list, p.ID)
		if err != nil {
			return err
		}
		return pinPolicy(s, c, v)
	})
}

type policyRollbackCmd struct{}

// Run pins the bundle before the last.
func (policyRollbackCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return withPolicies(ctx, s, g, func(c *node.Node, _ *node.Sales, list []policyView) error {
		if len(list) < 2 {
			return advice.Usage("lightwork policy list shows what there is", "there is no policy bundle before the last")
		}
		return pinPolicy(s, c, list[1])
	})
}

type policyUnpinCmd struct{}

// Run removes the pin.
func (policyUnpinCmd) Run(s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if err := c.PolicyPin().Remove(); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork: nothing is pinned: the next start sells under what the configuration says")
	return nil
}

func withPolicies(ctx context.Context, s *app.Streams, g *app.Globals, do func(*node.Node, *node.Sales, []policyView) error) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	return jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
		list, err := policies(ctx, store, c)
		if err != nil {
			return err
		}
		return do(c, store, list)
	})
}

// pickPolicy finds a bundle by the beginning of its id; the last one for "".
func pickPolicy(list []policyView, id string) (policyView, error) {
	if len(list) > 0 && id == "" {
		return list[0], nil
	}

	var found []policyView
	for _, v := range list {
		if digits := strings.TrimPrefix(id, "sha256:"); len(digits) >= 6 && strings.HasPrefix(strings.TrimPrefix(v.ID, "sha256:"), digits) {
			found = append(found, v)
		}
	}

	if len(found) != 1 {
		return policyView{}, advice.Usage("lightwork policy list shows the ids; a provider makes one when it starts", "%d policy bundles match %q (at least 6 characters)", len(found), id)
	}
	return found[0], nil
}

func pinPolicy(s *app.Streams, c *node.Node, v policyView) error {
	id, err := hashing.ParseDigest(v.ID)
	if err != nil {
		return err
	}
	if err := c.PolicyPin().Set(id); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "lightwork: pinned %s: the next start sells under it, whatever the configuration says of prices and limits\n", display.Short(v.ID))
	return nil
}
