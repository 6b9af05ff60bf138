// Command lightwork-verify grades what a bundle proves about a paid job. It
// works offline: it links no network, process or database code.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

const usage = `usage: lightwork-verify [flags] BUNDLE

BUNDLE is a folder, a .tar file, or - for a tar archive on standard input.

flags:
  --provider KEY    the provider is this one (npub or hex)
  --buyer KEY       the buyer is this one (npub or hex)
  --payee KEY       the invoice is of this Lightning node (hex)
  --network NAME    mainnet, testnet, signet, regtest, simnet or play
  --require LIST    claims that must be proved beside the first seven,
                    separated by commas, such as buyer_accepted,payee_pinned
  --explain         show every step
  --json            print the report as JSON

exit status:
  0  every required claim is proved and none failed
  1  a claim failed
  2  the bundle or the command line is unusable
  3  a required claim is not provable with what the bundle holds
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the parsed command line.
type options struct {
	pins    receipts.Pins
	json    bool
	explain bool
	bundle  string
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return receipts.ExitProved
	}
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s\n%s", printable(err.Error()), usage)
		return receipts.ExitUnusable
	}
	bundle, err := read(o.bundle, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s\n", printable(err.Error()))
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

func parseArgs(args []string) (options, error) {
	var o options
	var network, require string
	flags := flag.NewFlagSet("lightwork-verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.pins.Provider, "provider", "", "")
	flags.StringVar(&o.pins.Buyer, "buyer", "", "")
	flags.StringVar(&o.pins.Payee, "payee", "", "")
	flags.StringVar(&network, "network", "", "")
	flags.StringVar(&require, "require", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.BoolVar(&o.explain, "explain", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() != 1 {
		return o, fmt.Errorf("want one bundle, got %d", flags.NArg())
	}
	o.bundle = flags.Arg(0)
	o.pins.Network = payments.Network(network)
	if require != "" {
		o.pins.Required = strings.Split(require, ",")
	}
	return o, nil
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
		return receipts.ReadBundle(os.DirFS(name), receipts.Limits{})
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return receipts.ReadTar(f, receipts.Limits{})
}

// printJSON adds the exit code, so that a stored report says what it meant.
func printJSON(w io.Writer, r receipts.Report) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		ExitCode int `json:"exit_code"`
		receipts.Report
	}{r.ExitCode(), r})
}
