// Package cli is the command line of lightwork: its commands, what they print and
// their exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
)

// Main is the whole process of the program of this version: Run, with the process's
// memory hidden from others.
func Main(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := builtin.HideMemory(args); err != nil {
		fmt.Fprintln(stderr, "lightwork:", err)
		return advice.ExitFailed
	}
	return Run(ctx, version, args, stdin, stdout, stderr)
}

// Run parses the arguments, runs the command that they name and returns the exit
// code.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if builtin.AsksAgentHelp(helpArgs(args)) {
		fmt.Fprint(stdout, builtin.AgentHelp)
		return advice.ExitOK
	}
	if agent, err := builtin.Main(args); err != nil {
		return app.Report(stderr, &app.Globals{}, err)
	} else if agent != nil {
		return agent(ctx, stderr)
	}

	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("lightwork"),
		kong.Description("A node for a job market on Nostr: sell and buy compute, paid over Lightning, with receipts anyone can check."),
		kong.Vars{"version": "lightwork " + version},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.KindMapper(reflect.Int, decimalFlag(strconv.IntSize)), kong.KindMapper(reflect.Int64, decimalFlag(64)),
	)
	if err != nil {
		fmt.Fprintln(stderr, "lightwork:", err)
		return advice.ExitUsage
	}
	kctx, err := parser.Parse(helpArgs(args))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		c.LogFormat = logFormatOf(args) // the flags are not read yet
		return app.Report(stderr, &c.Globals, parseError(err))
	}

	c.Config = display.FromHome(c.Config)
	s := app.NewStreams(&c.Globals, version, stdin, stdout, stderr)
	slog.SetDefault(s.Log)
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.Bind(s, &c.Globals)
	err = kctx.Run()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = interrupted(err)
	}
	return app.Report(stderr, &c.Globals, err)
}

// logFormatOf finds --log-format among arguments that cannot be parsed.
func logFormatOf(args []string) string {
	for i, arg := range args {
		if arg == "--log-format="+app.FormatJSON || arg == "--log-format" && i+1 < len(args) && args[i+1] == app.FormatJSON {
			return app.FormatJSON
		}
	}
	return ""
}

// helpArgs gives "lightwork", "lightwork help" and "lightwork help COMMAND" the
// meaning that everybody expects.
func helpArgs(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// parseError prints the help of a command that only groups others; anything
// else that does not parse gets a hint at the help that explains it.
func parseError(err error) error {
	var bad *kong.ParseError
	if !errors.As(err, &bad) {
		return advice.Usage("lightwork --help lists the commands", "%w", err)
	}
	if bad.Context.Error == nil && isGroup(bad.Context) {
		return bad.Context.PrintUsage(false)
	}

	if at := bad.Context.Selected(); at != nil {
		hint := "lightwork " + commandPath(at) + " --help explains it"
		said := inWords(err.Error())
		if strings.Contains(said, "msats: must be a whole number") || strings.Contains(said, "msats: cannot be negative") {
			hint = "1 sat is 1000 msats; " + hint
		}
		return advice.Usage(hint, "%s", said)
	}

	return advice.Usage("lightwork --help lists the commands", "%w", err)
}

// decimalFlag reads a whole number in decimal digits. The library would also
// take 020 for 16 and 1_0 for 10.
func decimalFlag(bits int) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("int", &text); err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return fmt.Errorf("must be a whole number, not %q: decimal digits alone", text)
		}
		target.SetInt(n)
		return nil
	}
}

var (
	negative    = regexp.MustCompile(`expected u?int value but got ("-[^"]*").*`)
	notDuration = regexp.MustCompile(`expected duration but got ("[^"]*").*`)
)

// inWords says what a flag wants without the names of Go's types.
func inWords(said string) string {
	said = negative.ReplaceAllString(said, "cannot be negative, but got $1")
	return notDuration.ReplaceAllString(said, "must be a time such as 10m, not $1")
}

// commandPath names a command without the placeholders of its arguments.
func commandPath(at *kong.Node) string {
	var names []string
	for ; at != nil && at.Parent != nil; at = at.Parent {
		if at.Type == kong.CommandNode {
			names = append([]string{at.Name}, names...)
		}
	}
	return strings.Join(names, " ")
}

// interrupted is what Ctrl-C did, in one word, unless the command knows that
// something goes on without us.
func interrupted(err error) error {
	if coded := (*advice.Error)(nil); errors.As(err, &coded) && coded.Code == advice.ExitOpen {
		return err
	}
	return errors.New("interrupted")
}

// isGroup reports whether the arguments stop at a command that only groups
// others: that asks for its help.
func isGroup(c *kong.Context) bool {
	at := c.Selected()
	if at == nil {
		at = c.Path[len(c.Path)-1].Node()
	}
	return at != nil && !at.Leaf() && len(c.Path) > 1 && c.Path[len(c.Path)-1].Command == at && c.Args[len(c.Args)-1] == at.Name
}
