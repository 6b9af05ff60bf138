package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// globals are the flags every command has.
type globals struct {
	Config    string           `short:"c" help:"The configuration file." default:"lightwork.yaml" env:"LIGHTWORK_CONFIG"`
	LogLevel  string           `help:"debug, info, warn or error; logs go to stderr." default:"warn" enum:"debug,info,warn,error"`
	LogFormat string           `help:"text or json." default:"text" enum:"text,json"`
	Printed   kong.VersionFlag `name:"version" help:"Print the version."`
}

// cli is the command line; each command has a file of its own.
type cli struct {
	globals

	Demo     demoCmd     `cmd:"" help:"Buy a job from yourself with play money and verify the receipt, in seconds."`
	Init     initCmd     `cmd:"" help:"Write a commented lightwork.yaml and keys."`
	Doctor   doctorCmd   `cmd:"" help:"Check relays, wallet, agents, sandbox, clock and disk."`
	Relay    relayCmd    `cmd:"" help:"Run the embedded relay and blob server."`
	Provider providerCmd `cmd:"" help:"Sell: run jobs for others."`
	Buyer    buyerCmd    `cmd:"" help:"Buy: find providers, submit jobs, follow them."`
	Policy   policyCmd   `cmd:"" help:"What jobs run under: list, show, pin, roll back."`
	Jobs     jobsCmd     `cmd:"" help:"Look at a provider's jobs."`
	Agents   agentsCmd   `cmd:"" help:"Approve, run, steer and test agents."`
	Ask      askCmd      `cmd:"" help:"Ask the organism of the running node."`
	Pipeline pipelineCmd `cmd:"" help:"Show what agents may reach, and what they said to each other."`
	Sandbox  sandboxCmd  `cmd:"" help:"Images that sandbox jobs may name."`
	Tools    toolsCmd    `cmd:"" help:"List, describe and call the tools of a running node's agents."`
	Receipts receiptsCmd `cmd:"" help:"List, show, verify and export receipts."`
	Replay   replayCmd   `cmd:"" help:"Show, verify and export trajectories."`
	Schemas  schemasCmd  `cmd:"" help:"List and show job types."`
	Top      topCmd      `cmd:"" help:"A live screen of the running provider: jobs, money, relays, agents. q ends it."`
	Keys     keysCmd     `cmd:"" help:"Show, import and lock the keys; have a remote signer keep them."`
	Wallet   walletCmd   `cmd:"" help:"Look at the wallet; serve play money."`
	Backup   backupCmd   `cmd:"" help:"Copy a database while it is in use, and check the copy."`
	Restore  restoreCmd  `cmd:"" help:"Put a backup in the place of a database that is not in use."`
	ConfigC  configCmd   `cmd:"" name:"config" help:"Check the configuration."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, plainJSON(doc.Bytes()))
	return err
}

// plainJSON writes a JSON document so that it cannot steer a terminal: JSON lets
// strings hold some characters as they are which do. What it means stays.
func plainJSON(doc []byte) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(string(doc), "\ufffd") {
		switch {
		case r == '\r' || r == '\t': // between the parts of a document
			b.WriteByte(' ')
		case r != '\n' && steers(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// steers reports whether a terminal takes a character for a command, or for one to
// turn the text around it.
func steers(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// printable replaces what could steer a terminal: text from outside goes
// through it before it is shown. Newlines stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case steers(r):
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// short cuts an id or hash for a table.
func short(s string) string {
	s = strings.TrimPrefix(s, "sha256:")
	if len(s) > 12 {
		return s[:12]
	}
	return s
}

// msats writes an amount for people.
func msats(n int64) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%d sat", n/1000)
	}
	return fmt.Sprintf("%d msats", n)
}

// count writes a number of things: "1 file", "2 files".
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// shortReceipt cuts a receipt id for a table; commands take the beginning of one.
func shortReceipt(id string) string { return id[:min(len(id), 17)] }
