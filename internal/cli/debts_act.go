package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/provider"
)

// attemptView is one attempt to pay a debt, as --json shows it.
type attemptView struct {
	Attempt     int    `json:"attempt"`
	State       string `json:"state"` // open, succeeded or failed
	Msats       int64  `json:"msats"`
	PaymentHash string `json:"payment_hash"`
	Reason      string `json:"reason,omitempty"`
	EndedAt     string `json:"ended_at,omitempty"` // RFC 3339, UTC
}

func viewsOfAttempts(list []provider.Refund) (views []attemptView) {
	for _, r := range list {
		v := attemptView{Attempt: r.Attempt, State: "open", Msats: r.Msats, PaymentHash: r.PaymentHash.String()}
		if r.End != nil {
			v.State, v.Reason, v.EndedAt = string(r.End.State), r.End.Reason, r.End.At.Format(time.RFC3339)
		}
		views = append(views, v)
	}
	return views
}

// act brings the operator's word to the running provider, whose wallet and
// relays it needs.
func (c providerDebtsCmd) act(ctx context.Context, s *app.Streams, g *app.Globals) error {
	id := cmp.Or(c.Retry, c.WriteOff)
	err := readProvider(ctx, s, g, func(store *node.Sales) error {
		job, err := findJob(ctx, store, id)
		id = job.RequestID
		return err
	})
	if err != nil {
		return err
	}
	conf, err := openNode(s, g)
	if err != nil {
		return err
	}
	daemon, err := host.Dial(ctx, conf.ControlSocket())
	if errors.Is(err, host.ErrNoNode) {
		return advice.Hint(errors.New("no provider is running here"), "lightwork provider run starts it: a refund needs its wallet, and the buyer is told over its relays")
	}
	if err != nil {
		return err
	}

	what, said := "retry-refund", "on their way: lightwork provider debts says what becomes of them"
	if c.WriteOff != "" {
		what, said = "write-off", "written off; the buyer is told"
	}
	var done node.DebtDone
	if err := daemon.Node(ctx, what, node.DebtOrder{RequestID: id, To: c.To, Note: c.Note}, &done); err != nil {
		var refused *host.CallError
		if errors.As(err, &refused) {
			return advice.Hint(fmt.Errorf("debt of job %s: %s", display.Short(id), display.Printable(refused.Message)), "lightwork provider debts lists what is owed, and every attempt with --json")
		}
		return err
	}

	if c.JSON {
		return app.PrintJSON(s.Out, done)
	}
	_, err = fmt.Fprintf(s.Out, "%s %s\n", display.Msats(done.Msats), g.Spell(said))
	return err
}
