package buy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/adjudicate"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// several is the part of submit that says how many providers get the job.
type several struct {
	To         []string   `help:"Ask this provider (npub or hex); may be repeated: the first valid answer is paid, or with --redundancy all have a seat." placeholder:"KEY"`
	Open       bool       `help:"Ask everybody: the best of the valid offers that come within 2 s of the first is taken, in the order of buyer discover, in mode hold unless --mode free. A stranger's word is all there is."`
	Redundancy int        `help:"Give the job to N providers: their results become one as --adjudicate says." placeholder:"N"`
	Adjudicate panel.Rule `enum:"majority,merge,judge" default:"majority" help:"With --redundancy: majority pays those that more than half agree with, who commit before they see each other's results; merge makes one result of all and pays those that the others bear out; judge has an agent of yours (buyer.judge) choose one, and pays that. In the latter two requests are encrypted."`

	CompareStdout bool `help:"With --redundancy and --cmd: results agree only if the commands print the same to standard output too, not just exit alike and leave the same artifacts."`
}

// panel reports whether more than one provider gets the job.
func (v several) panel() bool { return v.Redundancy != 0 || len(v.To) > 1 }

func (v several) adjudication() panel.Rule {
	if v.Redundancy != 0 {
		return v.Adjudicate
	}
	return panel.RuleFirst
}

// keys reads --to, each key once.
func (v several) keys() (keys []string, err error) {
	for _, text := range v.To {
		key, err := receipts.ParseKey(text)
		if err != nil {
			return nil, advice.Usage("an npub1... or 64 hex digits", "--to: %w", err)
		}
		if slices.Contains(keys, key) {
			return nil, advice.Usage("a second seat of one key proves nothing", "--to: %s is named twice", text)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// checkSeveral refuses flags that cannot be meant together.
func (b buyerSubmitCmd) checkSeveral() error {
	keys, err := b.keys()
	switch {
	case err != nil:
		return err
	case len(keys) > 0 && b.Provider != "":
		return advice.Usage("--provider for one, --to, repeated, for several", "--to and --provider cannot be given together")
	case b.Redundancy != 0 && (b.Redundancy < 2 || b.Redundancy > 16):
		return advice.Usage("leave it out to buy from one", "--redundancy: from 2 to 16 providers, not %d", b.Redundancy)
	case b.Redundancy != 0 && b.Provider != "":
		return advice.Usage("--to KEY, repeated, names them", "--redundancy and --provider cannot be given together")
	case b.Redundancy != 0 && len(keys) > 0 && len(keys) != b.Redundancy:
		return advice.Usage("name as many as --redundancy says, or none", "--redundancy %d, and --to names %d", b.Redundancy, len(keys))
	case b.Redundancy != 0 && b.Mode != "" && b.Mode != receipts.ModePostpay:
		return advice.Usage("leave --mode out", "--redundancy: a vote needs mode postpay: results must be fixed before anybody is paid for one")
	case b.Redundancy == 0 && b.Adjudicate != panel.RuleMajority:
		return advice.Usage("--redundancy 3, for example", "--adjudicate %s needs --redundancy", b.Adjudicate)
	case b.CompareStdout && (b.Redundancy == 0 || b.Adjudicate != panel.RuleMajority):
		return advice.Usage("--redundancy 3, for example", "--compare-stdout is for a vote (--redundancy): of one result nothing is compared")
	case b.CompareStdout && len(b.Cmd) == 0:
		return advice.Usage("in a document it is verification.compare_stdout of "+string(schemas.SandboxRun), "--compare-stdout is for what a --cmd prints")
	case b.Redundancy != 0 && b.Adjudicate == panel.RuleMajority && !b.agrees():
		return advice.Usage("--adjudicate judge has an agent of yours choose one", "--redundancy: results of %s cannot be compared", b.Schema)
	case b.Adjudicate == panel.RuleMerge && !adjudicate.Merges(schemas.ID(b.Schema)):
		return advice.Usage("--adjudicate judge, or majority for results that can be compared", "--adjudicate merge: %w", adjudicate.ErrNoMerge)
	case b.Redundancy != 0 && b.Adjudicate == panel.RuleMajority && b.Delivery != receipts.DeliverySealed:
		return advice.Usage("leave --delivery out", "--redundancy: a vote needs sealed delivery")
	case b.Open && (len(keys) > 0 || b.Provider != "" || b.Redundancy != 0 || b.Payee != "" || b.DryRun || b.Explain):
		return advice.Usage("leave --open out to choose whom to ask", "--open cannot be given together with --provider, --to, --redundancy, --payee, --dry-run or --explain")
	case b.Open && b.Mode != "" && b.Mode != receipts.ModeHold && b.Mode != receipts.ModeFree:
		return advice.Usage("leave --mode out", "--open is in mode hold or free")
	case b.Open && b.Input == "" && b.Image == "" && b.Schema == string(schemas.SandboxRun):
		return advice.Usage("the digest of an image that providers have; lightwork sandbox images list has one's own", "--open needs an --image: everybody's own toolchain is another one")
	case b.Outside && (b.Open || b.panel()):
		return advice.Usage("--outside --provider KEY is for one that you chose", "--outside cannot be given together with --open, --to or --redundancy")
	case b.Refund != "" && (b.Open || b.panel()):
		return advice.Usage("the wallet makes an invoice for each", "--refund is for one provider")
	case b.Encrypt && b.Open:
		return advice.Usage("encrypt for one --provider or several --to, or leave it out", "--encrypt needs providers that are known: who reads an --open request is everybody")
	case b.Watch && b.Redundancy != 0:
		return advice.Usage("leave --watch out", "--watch and --redundancy cannot be given together: a vote needs sealed delivery")
	case b.Watch && b.Mode == receipts.ModePostpay:
		return advice.Usage("--mode free shows the output while it runs", "--watch: in mode postpay nothing is shown before it is paid for")
	case b.panel() && b.Payee != "":
		return advice.Usage("each provider's announced node is paid", "--payee is for one provider")
	}

	return nil
}

// agrees reports whether results of the job type can be compared; an unknown type is
// refused elsewhere.
func (b buyerSubmitCmd) agrees() bool {
	s, ok := schemas.Lookup(b.Schema)
	return !ok || s.Agrees()
}

// submitPanel buys the job from several providers.
func (b buyerSubmitCmd) submitPanel(ctx context.Context, s *app.Streams, g *app.Globals, n *node.Buyer, order buyer.Order) error {
	if b.Redundancy != 0 {
		order.Mode, order.Shared = receipts.ModePostpay, true
	} else if t := order.Tree; t != nil && t.Stored > tree.UnpaidBytes && order.Mode == "" {
		order.Mode = receipts.ModeHold // sent to the one that is paid, and to no other
	}
	if b.Adjudicate != panel.RuleMajority { // results are read before one is paid for
		order.Delivery, order.Encrypt, order.Judged = receipts.DeliveryPlain, true, true
	}
	b.Mode, b.Delivery, b.Encrypt = order.Mode, order.Delivery, order.Encrypt
	if b.Adjudicate == panel.RuleJudge && !b.DryRun && !b.Explain {
		if err := n.JudgeReady(ctx); err != nil {
			return err
		}
	}

	list, err := n.Client.Candidates(ctx, order)
	if err != nil {
		return b.noCandidates(err)
	}
	if b.Explain {
		return b.explain(ctx, s, n, list)
	}

	seats, err := b.seats(list)
	if err != nil {
		return err
	}
	if b.DryRun {
		if err := overBudget(n.Client.AffordsDay(ctx, b.MaxMsats)); err != nil {
			return err
		}
		for _, x := range seats {
			if err := b.preview(s, n, x); err != nil {
				return err
			}
		}
		return nil
	}

	listings := make([]buyer.Listing, len(seats))
	for i, x := range seats {
		listings[i] = x.Listing
	}
	p, err := n.Panels.Place(ctx, panel.Order{
		SchemaID: b.Schema, Input: seats[0].Order.Input, Tree: order.Tree, Members: listings, Rule: b.adjudication(), MaxMsats: b.MaxMsats, Mode: b.Mode, Delivery: b.Delivery,
		Encrypt: b.Encrypt,
	})

	var over *buyer.BudgetError
	switch {
	case errors.As(err, &over):
		return advice.Hint(err, "buyer.max_msats_per_day in the configuration; nothing was sent")
	case err != nil:
		return notPlaced(err)
	}

	return b.goOn(ctx, s, g, n, p.ID)
}

// submitOpen buys from whoever has the best valid offer.
func (b buyerSubmitCmd) submitOpen(ctx context.Context, s *app.Streams, g *app.Globals, n *node.Buyer, order buyer.Order) error {
	p, err := n.Client.PlaceOpen(ctx, order, purchase.NewTimeline(s.Err).Step)
	var over *buyer.BudgetError
	switch {
	case errors.As(err, &over):
		return overBudget(err)
	case errors.Is(err, buyer.ErrFailed), errors.Is(err, buyer.ErrNoRelay):
		return advice.Hint(err, "nothing is paid; lightwork buyer discover lists who is there")
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return advice.Usage("", "%w", err)
	}

	npub, err := receipts.Npub(p.Provider)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "lightwork: %s has the best offer\n", npub)
	return b.goOn(ctx, s, g, n, p.RequestID)
}

// seats finds the providers: those that --to names, or the best that can be asked.
// All must be able to run the very same request. One that would go over the limit
// for its key alone may have a seat: it is not paid, the others are.
func (b buyerSubmitCmd) seats(list []buyer.Candidate) ([]buyer.Candidate, error) {
	keys, err := b.keys()
	if err != nil {
		return nil, err
	}
	var refused *buyer.Candidate
	list = slices.DeleteFunc(list, func(x buyer.Candidate) bool {
		if len(keys) > 0 && !slices.Contains(keys, x.Provider) {
			return true
		}
		var over *buyer.BudgetError
		if x.Refusal == nil || errors.As(x.Refusal, &over) && over.Limit == "provider" {
			return false
		}
		if refused == nil {
			refused = &x
		}
		return true
	})

	want := max(len(keys), b.Redundancy)
	for _, group := range b.alike(list) {
		if len(group) >= want {
			return group[:want], nil
		}
	}

	why := fmt.Errorf("%d are needed that run %s%s; %s", want, b.Schema, b.inMode(), announcedBy(len(list), want))
	if refused != nil {
		why = fmt.Errorf("%w; not asked is %s: %w", why, refused.NPub, refused.Refusal)
		if errors.Is(why, buyer.ErrEngagement) {
			return nil, notPlaced(why)
		}
	}

	return nil, advice.Hint(why, b.hintAlike(list, want)+"lightwork buyer discover --schema "+b.Schema+" lists who is there")
}

// announcedBy says how many there are of what is needed.
func announcedBy(n, want int) string {
	switch {
	case n == 0:
		return "nobody who can be asked announces that"
	case n == 1:
		return "only one announces that"
	case n >= want:
		return "those that announce it have different toolchains"
	}
	return fmt.Sprintf("only %d announce that", n)
}

func (b buyerSubmitCmd) inMode() string {
	if b.Mode == "" {
		return ""
	}
	return " in mode " + string(b.Mode)
}

func (b buyerSubmitCmd) hintAlike(list []buyer.Candidate, want int) string {
	if len(list) >= want {
		return "name an --image that all have; "
	}
	return ""
}

// alike groups providers that can run one and the same request: a sandbox job
// that names no image runs on the provider's own toolchain, which must then be
// the same for all. The order within a group is theirs in the list.
func (b buyerSubmitCmd) alike(list []buyer.Candidate) [][]buyer.Candidate {
	if b.Schema != string(schemas.SandboxRun) || b.Image != "" || b.Input != "" {
		return [][]buyer.Candidate{list}
	}

	var groups [][]buyer.Candidate
	for _, x := range list {
		i := slices.IndexFunc(groups, func(g []buyer.Candidate) bool { return g[0].HostImage == x.HostImage })
		if i < 0 {
			groups = append(groups, []buyer.Candidate{x})
			continue
		}
		groups[i] = append(groups[i], x)
	}
	return groups
}
