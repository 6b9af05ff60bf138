package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/node/roles"
)

// RunProvider is a provider's whole life: open, serve until ctx ends, close.
// tell hears once the agents have registered and selling begins, and what
// happens then. A signal of reread has the organism read again.
func RunProvider(ctx context.Context, c *Node, log *slog.Logger, tell *SaleLog, reread <-chan os.Signal) error {
	return runRoles(ctx, c, log, tell, reread, true)
}

// Run is the life of a node with all that its configuration has: its relay, its agents
// and their organism, the judge, the provider, the buyer. A role that fails is told of and tried
// again, and costs only what needs it; a provider with open jobs ends the node.
func Run(ctx context.Context, c *Node, log *slog.Logger, tell *SaleLog, reread <-chan os.Signal) error {
	return runRoles(ctx, c, log, tell, reread, false)
}

// runRoles has the roles of a node work until ctx ends. Of one that only sells the first role
// that fails ends it.
func runRoles(ctx context.Context, c *Node, log *slog.Logger, tell *SaleLog, reread <-chan os.Signal, sells bool) (err error) {
	desk := &debtDesk{}
	calls := desk.calls()
	var set *roles.Set
	calls[listRoles] = func(context.Context, json.RawMessage) (any, error) { return set.Status(), nil }
	n, err := openCore(ctx, c, tell, calls, log)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, n.close(ctx)) }()

	n.prune = retention.New(n.k.Pruning(), c.Retention.Kept(), desk.removeBlob, log)
	desk.prune, desk.disputes = n.prune, n.k.Pruning()

	set = roles.New(sells, log, n.parts(desk, sells)...)
	g, gctx := errgroup.WithContext(ctx)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the roles have stopped
	defer stop()
	g.Go(func() error {
		select {
		case <-set.Begun(): // who asks an agent or the organism sooner would find neither
			return n.serve(serve, reread)
		case <-serve.Done():
			return nil
		}
	})
	g.Go(func() error {
		defer stop()
		return stopped(gctx, set.Run(gctx))
	})

	err = g.Wait()
	if finished := (*roles.Finished)(nil); errors.As(err, &finished) || ctx.Err() != nil {
		return nil
	}
	return err
}

// parts are the roles that the configuration has, in the order of their start.
func (n *core) parts(desk *debtDesk, sells bool) []roles.Part {
	var parts []roles.Part
	if !sells && n.RunsRelay() {
		parts = append(parts, roles.Part{Name: "relay", Role: n.EmbeddedRelay(n.tell.say)})
	}
	parts = append(parts, roles.Part{Name: "agents", Role: agentsRole{n}})
	if n.Organism != "" {
		parts = append(parts, roles.Part{Name: "organism", Role: organismRole{n}})
	}
	if !sells && n.Buyer.Judge.Listener != "" {
		parts = append(parts, roles.Part{Name: "judge", Role: judgeRole{n}})
	}
	if len(n.Provider.Offers) > 0 {
		seller := &providerRole{core: n, desk: desk}
		parts = append(parts, roles.Part{Name: "provider", Role: seller, Vital: seller.vital})
	}
	if !sells && n.Identity.BuyerKeyFile != "" && (!n.Buyer.Wallet.None() || len(n.Provider.Offers) == 0) {
		parts = append(parts, roles.Part{Name: "buyer", Role: &buyerRole{core: n}})
	}
	return parts
}

// listRoles names the call that lists the roles of a running node.
const listRoles = "roles"

// RoleStatus is how far a role of a running node is.
type RoleStatus = roles.Status

// RoleFailed is the state of a role that does not run, and is tried again.
const RoleFailed = roles.Failed

// Roles lists the roles of the node that runs on this configuration. The error is
// [host.ErrNoNode] if none does.
func (c *Node) Roles(ctx context.Context) (list []RoleStatus, err error) {
	node, err := host.Dial(ctx, c.controlSocket())
	if err != nil {
		return nil, err
	}
	return list, node.Node(ctx, listRoles, struct{}{}, &list)
}
