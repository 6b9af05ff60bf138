package buy

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	panels "github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// What a sandbox job gets unless asked for more.
const (
	jobTimeout = time.Minute
	jobMemory  = 512 // MiB
)

type buyerSubmitCmd struct {
	Provider string `help:"Buy from this provider (npub or hex). Left out: the first one that --explain lists." placeholder:"KEY"`
	several
	Outside        bool           `help:"Buy from a program that knows NIP-90 alone: pay its invoice without a quote, within --max-msats, and take what it sends without a receipt."`
	Schema         string         `help:"Job type." default:"oa.sandbox_run.v1"`
	Prompt         string         `help:"Have a text written (oa.text_generation.v1): the prompt." placeholder:"TEXT"`
	Input          string         `help:"A file with the request document ('-' for stdin), instead of the flags below." placeholder:"FILE"`
	InputJob       []string       `help:"Take the result of an earlier purchase (id or its beginning) as an input: after --prompt, or with --schema as the whole request document. May be repeated after --prompt." placeholder:"ID"`
	Repo           string         `help:"A folder to send along, mounted at /workspace: all its files but .git and those that git ignores. Up to 40 KB packed it is in the request, and PUBLIC; a larger one is encrypted for the provider alone." type:"existingdir" placeholder:"DIR"`
	IncludeSecrets bool           `help:"Send files of --repo even if their names are those of secrets (.env, *.key, ...)."`
	Git            string         `help:"The https address of a git repository that the provider fetches, instead of --repo." placeholder:"URL"`
	Commit         string         `help:"With --git: the full id of the commit." placeholder:"ID"`
	Image          string         `help:"Digest of an image that the provider has registered; its own toolchain if left out." placeholder:"sha256:HEX"`
	Cmd            []string       `help:"A command to run in the sandbox; may be repeated." sep:"none" placeholder:"COMMAND"`
	ExpectSuccess  bool           `help:"Pay only if every command exits with 0: the request says so, and another outcome is not charged."`
	Timeout        *time.Duration `help:"The longest the job may take; it decides the price (1m)." placeholder:"TIME"`
	Memory         *int64         `help:"Memory in MiB (512)." placeholder:"MIB"`
	Network        string         `enum:"none,localhost,full" default:"none" help:"What the commands can reach: none, localhost (a loopback device of their own), or full (the web, if the provider sells it)."`
	most
	Delivery receipts.Delivery `enum:"sealed,plain" default:"sealed" help:"sealed: the result comes in boxes that the payment opens, where mode and provider can do so; plain: in the clear."`
	Mode     receipts.Mode     `help:"Payment mode to ask for: hold, prepay, postpay or free." placeholder:"MODE"`
	Payee    string            `help:"Pay only this Lightning node (33-byte hex key)." placeholder:"NODE"`
	Refund   string            `help:"Where a prepayment goes if the job fails: a BOLT11 invoice, a Lightning address, on the chain a bitcoin address, or none. Left out: an invoice of your wallet." placeholder:"INVOICE"`
	Encrypt  bool              `help:"Encrypt the request and all answers (NIP-44). Then nobody else can check what the receipt is for."`
	Watch    bool              `help:"Ask for plain delivery. While a free job runs you see its output, while a paid job runs only that it does."`
	purchase.Outputs
	Detach  bool `help:"Print the id and come back at once: the buyer that runs here (buyer run) works on it, or where none does a process of its own in the background."`
	DryRun  bool `help:"Print which provider would be asked, for which job and for how much; send nothing."`
	Explain bool `help:"List the providers that could do this very job, best first, with the reasons, and those that could not; send nothing."`
	named
	JSON bool `help:"Print JSON."`

	MaxMsats int64 `kong:"-"` // what the flags of most come to
}

// Help is shown below the flags.
func (buyerSubmitCmd) Help() string {
	return "Exit code 4: the job was done and paid, and its commands failed or ran out of time, or no receipt came. 3: not finished, buyer resume goes on."
}

// Run buys one job. Everything that can be wrong here is found before anybody
// is asked for anything.
func (b buyerSubmitCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if b.Prompt != "" {
		b.Schema = string(schemas.TextGeneration)
	}
	limit, given, err := b.limit()
	if err == nil && !given {
		err = advice.Usage("for example --max-sats 50; --max-sats 0 takes free jobs only", "--max-sats (or --max-msats) is needed: the most to pay, routing fees included")
	}
	if err != nil {
		return err
	}
	b.MaxMsats = limit
	if err := b.checkInputs(); err != nil {
		return err
	}
	provider, err := b.check()
	if err != nil {
		return err
	}
	if b.Watch {
		b.Delivery = receipts.DeliveryPlain
	}
	document, files, err := b.read(ctx, s)
	if err == nil {
		err = b.checkDocument(document, files)
	}
	if err != nil {
		return err
	}

	return purchase.WithBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if err := b.allowed(n); err != nil {
			return err
		}
		if err := n.MayPay(ctx, b.MaxMsats); err != nil {
			return err
		}

		inputs, err := b.inputs(ctx, n)
		if err == nil {
			err = files.pack(s, n, b.sentOrNot())
		}
		if err != nil {
			return err
		}
		order, err := b.order(document, files, inputs)
		if err != nil {
			return err
		}
		if b.Open {
			return b.submitOpen(ctx, s, g, n, order)
		}
		if b.panel() {
			return b.submitPanel(ctx, s, g, n, order)
		}

		order.Provider = provider
		list, err := n.Client.Candidates(ctx, order)
		if err != nil {
			return b.noCandidates(err)
		}
		if b.Explain {
			return b.explain(ctx, s, n, list)
		}

		first, err := b.best(list, provider)
		if err != nil {
			return err
		}
		if b.DryRun {
			return b.preview(s, n, first)
		}

		var p buyer.Purchase
		if provider == "" {
			p, err = n.Client.PlaceOrder(ctx, order, first)
		} else {
			p, err = n.Client.Place(ctx, first.Order)
		}

		if err != nil {
			return notPlaced(err)
		}
		return b.goOn(ctx, s, g, n, p.RequestID)
	})
}

// goOn works on what was placed, or leaves that to another process.
func (b buyerSubmitCmd) goOn(ctx context.Context, s *app.Streams, g *app.Globals, n *node.Buyer, id string) error {
	switch {
	case b.Detach:
		return detach(ctx, s, g, n, id, b.JSON)
	case strings.HasPrefix(id, panels.Prefix):
		return panels.Follow(ctx, s, n, id, b.Outputs, b.JSON)
	}
	return follow(ctx, s, n, id, b.Outputs, b.JSON)
}

// notPlaced says why an order was not even sent.
func notPlaced(err error) error {
	hint := ""
	switch {
	case errors.Is(err, buyer.ErrTreeGone):
		hint = "lightwork buyer submit --repo DIR packs them again; nothing was sent"
	case errors.Is(err, panel.ErrAboveMaximum):
		hint = "raise --max-sats, which is for all of them together; nothing was sent"
	case errors.Is(err, buyer.ErrEngagement):
		hint = "nothing was sent; raise buyer.max_engagement_msats in the configuration to pay for the attempt"
	}
	return advice.Usage(hint, "%w", err)
}

// allowed refuses a mode that this buyer does not buy in.
func (b buyerSubmitCmd) allowed(n *node.Buyer) error {
	mode, hint := b.Mode, "add it to buyer.modes in the configuration"
	if b.Redundancy != 0 {
		mode, hint = receipts.ModePostpay, hint+": each seat of a vote is paid after its result"
	}
	if mode == receipts.ModePrepay {
		hint += "; in it a provider can keep the money, so leave --mode out unless you know yours"
	}
	if err := n.Client.CheckMode(mode); err != nil {
		return advice.Usage(hint, "%w", err)
	}
	return nil
}

// check refuses flags that cannot be meant, and returns the provider's key in
// hex, "" for any.
func (b buyerSubmitCmd) check() (provider string, err error) {
	if b.Provider != "" {
		if provider, err = receipts.ParseKey(b.Provider); err != nil {
			return "", advice.Usage("an npub1... or 64 hex digits", "--provider: %w", err)
		}
	}

	if err := b.checkSeveral(); err != nil {
		return "", err
	}
	if b.Detach && (b.Outputs != (purchase.Outputs{}) || b.DryRun || b.Explain) {
		return "", advice.Usage("lightwork receipts export writes the bundle later", "--detach cannot be given together with --out, --files, --dry-run or --explain")
	}
	if len(b.To) == 1 && !b.panel() {
		if provider, err = receipts.ParseKey(b.To[0]); err != nil {
			return "", err // checked before
		}
	}

	if b.Mode != "" && !config.IsMode(b.Mode) {
		return "", advice.Usage("hold, prepay, postpay or free", "--mode: there is no payment mode %q", b.Mode)
	}
	if err := checkPayee(b.Payee); err != nil {
		return "", err
	}
	if _, ok := schemas.Lookup(b.Schema); !ok {
		return "", advice.Usage("lightwork schemas list shows them", "--schema: unknown job type %q", b.Schema)
	}

	switch {
	case (b.Git == "") != (b.Commit == ""):
		return "", advice.Usage("git ls-remote URL shows them", "--git and --commit go together: a name like main may move")
	case b.Git != "" && b.Repo != "":
		return "", advice.Usage("--git for a commit that a server has, --repo for a folder here", "--git and --repo cannot be given together")
	}

	if b.Prompt != "" && (len(b.Cmd) > 0 || b.Repo != "" || b.Git != "") {
		return "", advice.Usage("leave one of them out", "--prompt and --cmd, --repo or --git cannot be given together")
	}
	if b.Names && !b.Explain {
		return "", advice.Usage("add --explain, or use lightwork buyer discover --names", "--names shows names and changes nothing about an order")
	}
	if b.Outside && b.Provider == "" {
		return "", advice.Usage("lightwork buyer discover lists them", "--outside needs --provider: such a provider is chosen by a person")
	}

	if b.Input != "" {
		for name, given := range map[string]bool{
			"--cmd": len(b.Cmd) > 0, "--repo": b.Repo != "", "--timeout": b.Timeout != nil, "--memory": b.Memory != nil, "--network": b.Network != "none",
			"--include-secrets": b.IncludeSecrets, "--git": b.Git != "", "--image": b.Image != "", "--prompt": b.Prompt != "",
			"--expect-success": b.ExpectSuccess,
		} {
			if given {
				return "", advice.Usage("the document says it all; leave "+name+" out", "--input and %s cannot be given together", name)
			}
		}
	}

	return provider, b.Outputs.Check()
}

// checkPayee wants the compressed key of a Lightning node.
func checkPayee(key string) error {
	if key == "" {
		return nil
	}
	raw, err := hex.DecodeString(key)
	if err == nil && len(raw) == btcec.PubKeyBytesLenCompressed && key == strings.ToLower(key) {
		if _, err = btcec.ParsePubKey(raw); err == nil {
			return nil
		}
	}
	return advice.Usage("66 hex digits that begin with 02 or 03; lightwork buyer discover --json shows what providers announce", "--payee is not the key of a Lightning node")
}
