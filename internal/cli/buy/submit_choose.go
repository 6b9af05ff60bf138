package buy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

// best is whom the order goes to: the first of the candidates, if it can be asked.
func (b buyerSubmitCmd) best(list []buyer.Candidate, key string) (buyer.Candidate, error) {
	nobody := "nobody on these relays announces"
	if key != "" {
		nobody = display.NPub(key) + " does not announce"
	}

	switch {
	case len(list) == 0 && key != "":
		return buyer.Candidate{}, advice.Hint(fmt.Errorf("%s is not announced here", display.NPub(key)), "lightwork buyer discover lists who is, on the relays of the configuration")
	case len(list) == 0:
		return buyer.Candidate{}, advice.Hint(fmt.Errorf("%s %s", nobody, b.Schema), "lightwork buyer discover lists who is there")
	case list[0].Refusal == nil:
		return list[0], nil
	}

	// Programs that know NIP-90 alone come last, so the first says the most.
	return list[0], b.refused(list[0], nobody)
}

// refused is why a provider is not asked, with the next step.
func (b buyerSubmitCmd) refused(x buyer.Candidate, nobody string) error {
	err := x.Refusal
	var mode *buyer.ModeError
	var price *buyer.PriceError

	var over *buyer.BudgetError
	var rule *buyer.ApprovalError
	var network *buyer.NetworkError
	switch {
	case errors.Is(err, buyer.ErrNotSold):
		return advice.Hint(fmt.Errorf("%s %s", nobody, b.Schema), "lightwork buyer discover lists who is there")
	case errors.Is(err, buyer.ErrPlain):
		return advice.Usage("--outside with --provider pays it all the same, within --max-sats; --mode free --max-sats 0 pays nothing", "%s: %w", x.NPub, err)
	case errors.Is(err, buyer.ErrPaused):
		return advice.Hint(fmt.Errorf("who runs %s takes no jobs now", b.Schema), "ask again later; lightwork buyer discover lists who is there")
	case errors.As(err, &mode):
		return b.noMode(nobody, mode.Announced)
	case errors.Is(err, buyer.ErrNoWallet):
		return advice.Usage("name one under buyer.wallet in the configuration, or ask for --mode free; nothing was sent", "%w", err)
	case errors.Is(err, buyer.ErrToolchain):
		return advice.Usage("name one of its images with --image", "%s: %w", x.NPub, err)
	case errors.Is(err, buyer.ErrEngagement):
		return notPlaced(err)
	case errors.As(err, &price):
		return advice.Hint(fmt.Errorf("%s: the announced price is %s, the most to pay is %s", x.NPub, display.Msats(price.PriceMsats), display.Msats(price.MaxMsats)), "raise --max-sats; nothing was sent")
	case errors.As(err, &over):
		return overBudget(err)
	case errors.As(err, &rule):
		return purchase.RefusedByRule(x.Rule, err)
	case errors.As(err, &network):
		return advice.Hint(fmt.Errorf("%s: %w", x.NPub, err), "lightwork buyer discover shows on which network each is paid; nothing was sent")
	}

	return advice.Hint(fmt.Errorf("%s: %w", x.NPub, err), "lightwork buyer discover lists who is there; nothing was sent")
}

// noCandidates is an error in looking for providers, or of the order itself.
func (b buyerSubmitCmd) noCandidates(err error) error {
	var bad *buyer.RequestError
	if !errors.As(err, &bad) {
		return advice.Hint(err, "lightwork doctor checks the relays")
	}
	if bad.Refund {
		return advice.Usage("an invoice or a Lightning address of yours, on the chain an address, or none", "--refund: %w", err)
	}
	if len(b.InputJob) > 0 {
		return advice.Usage("lightwork schemas show "+b.Schema+" tells the form of the document", "--input-job: %w", err)
	}
	return advice.Usage("lightwork schemas show "+b.Schema+" tells its form", "%w", err)
}

// noMode is for when nobody who does the job sells it in such a mode.
func (b buyerSubmitCmd) noMode(nobody string, announced []receipts.Mode) error {
	if b.Mode != "" {
		return advice.Usage(fmt.Sprintf("announced are %v", announced), "%s %s in mode %s", nobody, b.Schema, b.Mode)
	}
	hint := fmt.Sprintf("announced are %v: add one to buyer.modes in the configuration", announced)
	if slices.Equal(announced, []receipts.Mode{receipts.ModePrepay}) {
		hint += "; in prepay a provider can keep the money"
	}
	return advice.Usage(hint, "%s %s in a mode that is among buyer.modes", nobody, b.Schema)
}

// candidateView is a candidate as --explain shows it.
type candidateView struct {
	Rank       int           `json:"rank,omitempty"` // 1 is asked first; absent if it is not asked
	Provider   string        `json:"provider"`       // x-only hex
	NPub       string        `json:"npub"`
	Name       string        `json:"name"`
	NIP05      string        `json:"nip05,omitempty"` // only if its domain vouches for it
	PriceMsats *int64        `json:"price_msats"`     // null if it announces none
	Mode       receipts.Mode `json:"mode,omitempty"`
	Rule       string        `json:"approval_rule_id,omitempty"`
	Why        []string      `json:"why"`
	NotAsked   string        `json:"not_asked,omitempty"`
}

// explain lists who would be asked for the job, in which order and why.
func (b buyerSubmitCmd) explain(ctx context.Context, s *app.Streams, n *node.Buyer, list []buyer.Candidate) error {
	listings := make([]buyer.Listing, len(list))
	for i, x := range list {
		listings[i] = x.Listing
	}

	names := b.of(ctx, n.Names, listings)
	views := make([]candidateView, len(list))
	for i, x := range list {
		v := candidateView{Rank: i + 1, Provider: x.Provider, NPub: x.NPub, Name: x.Name, NIP05: nameOf(x.Listing, names), Mode: x.Mode, Rule: x.Rule.ID, Why: x.Why}
		if x.Priced {
			v.PriceMsats = &x.PriceMsats
		}
		if x.Refusal != nil {
			v.Rank, v.NotAsked = 0, x.Refusal.Error()
		}
		views[i] = v
	}

	if b.JSON {
		return app.PrintJSON(s.Out, views)
	}
	if len(views) == 0 {
		fmt.Fprintln(s.Err, "lightwork: nobody on these relays announces", b.Schema)
	}
	for _, v := range views {
		v.show(s.Out)
	}
	fmt.Fprintln(s.Out, "Nothing was sent.")
	return nil
}

func (v candidateView) show(w io.Writer) {
	place := "-"
	if v.Rank > 0 {
		place = fmt.Sprintf("%d.", v.Rank)
	}
	price := "no price announced"
	if v.PriceMsats != nil {
		price = "at most " + display.Msats(*v.PriceMsats)
	}
	fmt.Fprintf(w, "%-3s %s\n%s    %s: %s\n", place, v.NPub, nameLine(v.NIP05), display.Cut(v.Name, 30), strings.Join(append([]string{strings.TrimSpace(price + " " + string(v.Mode))}, v.Why...), ", "))
	if v.NotAsked != "" {
		fmt.Fprintf(w, "    not asked: %s\n", strings.ReplaceAll(display.Printable(v.NotAsked), "\n", " "))
	}
}
