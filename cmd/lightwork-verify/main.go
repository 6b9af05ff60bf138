// Command lightwork-verify checks what a bundle proves about a paid job. It works
// offline: it contains no network, process or database code.
package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

const usage = `usage: lightwork-verify [flags] BUNDLE
       lightwork-verify --all [flags] FOLDER

BUNDLE is a folder, a .tar file, or - for a tar archive on standard input.
Flags may stand before and after it. With --all, every folder and every .tar
file in FOLDER is a bundle; what they show of each provider's chain comes last.

flags:
  --provider KEY    the provider is this one (npub or hex)
  --buyer KEY       the buyer is this one (npub or hex)
  --payee KEY       the invoice is of this Lightning node (hex)
  --network NAME    mainnet, testnet, signet, regtest, simnet, play, or
                    cashu:HOST (a mint's notes), chain:NAME (on the chain)
  --require LIST    claims that must be proved beside the first seven,
                    separated by commas, such as buyer_accepted,payee_pinned
  --also KEY        take this key (npub or hex), and those that key changes join it
                    with, for one holder's; may be repeated, needs --keys
  --keys FILE       the key changes that are known, as written by
                    lightwork keys changes: a key is not believed after its end
  --all             verify every bundle in a folder, on all processors
  --dispute         BUNDLE is a folder that lightwork buyer dispute wrote
  --explain         show every step
  --json            print the report as JSON; with --all, one a line
  --version         print the version, and verify nothing

exit status:
  0  every required claim is proved and none failed
  1  a claim failed
  2  the bundle or the command line is unusable
  3  a required claim is not provable with what the bundle holds
with --all: 1 if a claim failed anywhere or a chain contradicts itself, else 2 if
a bundle is unusable, else 3 if one is not provable, else 0
with --dispute: 0 if it is proved that nothing was delivered, 1 if it was
delivered, 2 if the folder is unusable, 3 if nothing is shown
`

// version is set by the Makefile with -ldflags.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the parsed command line.
type options struct {
	pins    receipts.Pins
	json    bool
	explain bool
	dispute bool
	all     bool
	version bool
	bundle  string
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return receipts.ExitProved
	}
	if err == nil && o.version {
		fmt.Fprintln(stdout, "lightwork-verify "+version)
		return receipts.ExitProved
	}
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s (--help explains the flags)\n", printable(err.Error()))
		return receipts.ExitUnusable
	}

	switch {
	case o.dispute:
		return rule(o, stdout, stderr)
	case o.all:
		return verifyAll(o, stdout, stderr)
	}

	bundle, err := read(o.bundle, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s\n%s", printable(err.Error()), hintFor(err, o.bundle))
		return receipts.ExitUnusable
	}
	report := receipts.Verify(bundle, o.pins)
	if o.json {
		err = printJSON(stdout, report)
	} else {
		err = printText(stdout, report, o.explain)
	}

	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: write report: %v\n", err)
		return receipts.ExitUnusable
	}
	return report.ExitCode()
}

const (
	bundleHint  = "  hint: a bundle is a folder or a .tar file, as written by lightwork buyer submit --out or lightwork receipts export\n"
	disputeHint = "  hint: name a folder written by lightwork buyer dispute\n"
)

// hintFor is the next step if the named file or folder is not a bundle.
func hintFor(err error, name string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bundleHint
	case strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonl"):
		return "  hint: name the folder that contains it\n"
	case errors.Is(err, receipts.ErrBundle) && name != "-":
		if entries, err := os.ReadDir(name); err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && couldBeBundle(filepath.Join(name, e.Name())) }) {
			return "  hint: there are bundles in it: --all verifies them\n"
		} else if err != nil && !strings.HasSuffix(name, ".tar") || err == nil && !couldBeBundle(name) {
			return bundleHint
		}
	}

	return ""
}

// rule judges a dispute.
func rule(o options, stdout, stderr io.Writer) int {
	d, err := readDispute(o.bundle)
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s\n%s", printable(err.Error()), disputeHint)
		return receipts.ExitUnusable
	}
	r := d.Rule(o.pins)
	if o.json {
		if writeJSON(stdout, r, "  ") != nil {
			return receipts.ExitUnusable
		}
		return r.ExitCode()
	}
	for _, f := range r.Findings {
		fmt.Fprintf(stdout, "%-12s  %s\n", f.State, f.What)
	}
	fmt.Fprintf(stdout, "\n%s: %s\nprovider %s\nbuyer    %s\n%d msats\n", r.Verdict, printable(r.Reason), r.ProviderID, r.BuyerID, r.AmountMsats)
	return r.ExitCode()
}

// readDispute reads a dispute; a missing folder gives just that error.
func readDispute(name string) (*receipts.Dispute, error) {
	if _, err := os.Stat(name); err != nil {
		return nil, err
	}
	return receipts.ReadDispute(os.DirFS(name), receipts.Limits{})
}

func parseArgs(args []string) (options, error) {
	var o options
	var network, require, keys string
	flags := flag.NewFlagSet("lightwork-verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.pins.Provider, "provider", "", "")
	flags.StringVar(&o.pins.Buyer, "buyer", "", "")
	flags.StringVar(&o.pins.Payee, "payee", "", "")
	flags.StringVar(&network, "network", "", "")
	flags.StringVar(&require, "require", "", "")
	flags.StringVar(&keys, "keys", "", "")
	flags.Func("also", "", func(key string) error {
		o.pins.Also = append(o.pins.Also, key)
		return nil
	})
	flags.BoolVar(&o.json, "json", false, "")
	flags.BoolVar(&o.explain, "explain", false, "")
	flags.BoolVar(&o.dispute, "dispute", false, "")
	flags.BoolVar(&o.all, "all", false, "")
	flags.BoolVar(&o.version, "version", false, "")
	bundles, err := parseMixed(flags, args)
	if err != nil || o.version {
		return o, err
	}
	if len(bundles) != 1 {
		return o, fmt.Errorf("want one bundle, got %d", len(bundles))
	}

	o.bundle = bundles[0]
	if o.all && (o.dispute || o.explain) {
		return o, errors.New("--all cannot be combined with --dispute or --explain; verify a single bundle instead")
	}
	o.pins.Network = payments.Network(network)
	if require != "" {
		o.pins.Required = strings.Split(require, ",")
	}
	if err := checkPins(o.pins); err != nil {
		return o, err
	}
	return o, o.readKeys(keys)
}

// parseMixed parses flags before and after the other arguments, which it returns.
// After -- all arguments are others.
func parseMixed(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return others, nil
		}
		if read := len(args) - len(rest); read > 0 && args[read-1] == "--" {
			return append(others, rest...), nil
		}
		others, args = append(others, rest[0]), rest[1:]
	}
}

// maxKeysFile bounds the file of --keys.
const maxKeysFile = 4 << 20

// readKeys reads the key changes that are known.
func (o *options) readKeys(name string) error {
	if name == "" {
		if len(o.pins.Also) > 0 {
			return errors.New("--also: name the file with the key changes by --keys; lightwork keys changes writes one")
		}
		return nil
	}

	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeysFile+1))
	if err == nil && len(text) > maxKeysFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxKeysFile)
	}
	if err == nil {
		o.pins.Keys, err = receipts.ReadKeyHistory(text)
	}
	if err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	return nil
}

// checkPins refuses pins that cannot match any bundle: they are a mistake on the
// command line and say nothing about the bundle.
func checkPins(p receipts.Pins) error {
	for name, key := range map[string]string{"--provider": p.Provider, "--buyer": p.Buyer} {
		if key == "" {
			continue
		}
		if _, err := receipts.ParseKey(key); err != nil {
			return fmt.Errorf("%s: want an npub or 64 hex digits: %w", name, err)
		}
	}

	for _, key := range p.Also {
		if _, err := receipts.ParseKey(key); err != nil {
			return fmt.Errorf("--also: want an npub or 64 hex digits: %w", err)
		}
	}

	if p.Payee != "" && !isNode(p.Payee) {
		return errors.New("--payee: want the compressed key of a Lightning node, 66 hex digits")
	}
	if _, err := payments.ParseNetwork(string(p.Network)); err != nil && p.Network != "" {
		return fmt.Errorf("--network: %w", err)
	}

	for _, name := range p.Required {
		if !slices.Contains(receipts.ClaimNames(), name) {
			return fmt.Errorf("--require: there is no claim %q, only %s", name, strings.Join(receipts.ClaimNames(), ", "))
		}
	}

	return nil
}

// isNode reports whether key is a point of the curve in its canonical spelling.
func isNode(key string) bool {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) != btcec.PubKeyBytesLenCompressed || key != strings.ToLower(key) {
		return false
	}
	_, err = btcec.ParsePubKey(raw)
	return err == nil
}

// graded is a report with the fields that make a stored one understandable by
// itself.
type graded struct {
	Bundle   string `json:"bundle,omitempty"`
	ExitCode int    `json:"exit_code"`
	receipts.Report
}

// read opens a folder, a file or standard input.
func read(name string, stdin io.Reader) (*receipts.Bundle, error) {
	if name == "-" {
		return receipts.ReadTar(stdin, receipts.Limits{})
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(name)
	}

	var r room
	return r.readArchive(name)
}

func readFolder(name string) (*receipts.Bundle, error) {
	return receipts.ReadBundle(os.DirFS(name), receipts.Limits{})
}

// printJSON adds the exit code, so that a stored report has its verdict.
func printJSON(w io.Writer, r receipts.Report) error {
	return writeJSON(w, graded{ExitCode: r.ExitCode(), Report: r}, "  ")
}
