// Package cli is the command line of lightwork: its commands, what they print and
// their exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Exit codes, documented in docs/use/cli.md.
const (
	exitOK     = 0
	ExitFailed = 1 // it was tried and did not work
	exitUsage  = 2 // the command line, the configuration or an input is not usable
	exitOpen   = 3 // not finished: run it again later, or a proof is missing
	exitUnmet  = 4 // a job was bought and delivered, and its commands did not succeed
)

// streams is where a command reads and writes. Results go to out, diagnostics
// and progress to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	log *slog.Logger
	// told is what the operator of a program that runs on is told in any case,
	// whatever --log-level says: a line with its time for each thing that happens.
	told *slog.Logger
}

// codedError carries the exit code that an error stands for, and a hint.
type codedError struct {
	code int
	hint string
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// usage is an error of what the user gave us.
func usage(hint string, format string, args ...any) error {
	return &codedError{exitUsage, hint, fmt.Errorf(format, args...)}
}

// hinted adds a next step to an error.
func hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &codedError{ExitFailed, hint, err}
}

// otherUser is the hint where a file may not be read or made.
const otherUser = "this user may not do that there: run it as the user whose node it is, or name another folder"

// exitCode is an error without words: the command has said it all.
func exitCode(code int) error {
	if code == exitOK {
		return nil
	}
	return &codedError{code: code, err: errSilent}
}

var errSilent = errors.New("")

// Run parses the arguments of the program of this version, runs the command that
// they name and returns the exit code.
func Run(ctx context.Context, program string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	version = program
	if asksAgentHelp(helpArgs(args)) {
		fmt.Fprint(stdout, agentHelp)
		return exitOK
	}
	if agent := agentMain(args); agent != nil {
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
		return exitUsage
	}
	kctx, err := parser.Parse(helpArgs(args))
	if exited >= 0 {
		return exited
	}
	if err != nil {
		c.LogFormat = logFormatOf(args) // the flags are not read yet
		return report(stderr, &c.globals, parseError(err))
	}
	c.Config = fromHome(c.Config)
	s := &streams{
		in: stdin, out: stdout, err: stderr,
		log: newLogger(stderr, c.LogLevel, c.LogFormat), told: newLogger(stderr, "info", c.LogFormat),
	}
	if c.LogFormat == formatJSON { // then nothing else is on stderr
		s.err = lineLog{s.told}
	}
	slog.SetDefault(s.log)
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.Bind(s, &c.globals)
	err = kctx.Run()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = interrupted(err)
	}
	return report(stderr, &c.globals, err)
}

// logFormatOf finds --log-format among arguments that cannot be parsed.
func logFormatOf(args []string) string {
	for i, arg := range args {
		if arg == "--log-format="+formatJSON || arg == "--log-format" && i+1 < len(args) && args[i+1] == formatJSON {
			return formatJSON
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
		return usage("lightwork --help lists the commands", "%w", err)
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
		return usage(hint, "%s", said)
	}
	return usage("lightwork --help lists the commands", "%w", err)
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
	if coded := (*codedError)(nil); errors.As(err, &coded) && coded.code == exitOpen {
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

// report prints an error as "lightwork: ..." with its hint and gives its code.
func report(stderr io.Writer, g *globals, err error) int {
	if err == nil {
		return exitOK
	}
	coded := &codedError{code: ExitFailed}
	_ = errors.As(err, &coded)
	if !errors.Is(err, errSilent) {
		said, quoted, _ := strings.Cut(err.Error(), "\n") // lines of a file are shown as they are
		text := printable(strings.TrimRight(g.spell(said)+"\n"+quoted, "\n"))
		file := (*fs.PathError)(nil)
		switch {
		// First, since a command that cannot read a database may take it for missing.
		case errors.Is(err, sqlite.ErrTooOld):
			coded.hint = "lightwork provider run brings the provider's up to date, lightwork buyer resume the buyer's; lightwork backup copies it as it is before that"
		case errors.Is(err, sqlite.ErrUnreleased):
			coded.hint = "finish its jobs and take its money out with the program that made it; lightwork backup keeps a copy; then name a new folder as node.data_dir"
		case errors.Is(err, sqlite.ErrTooNew):
			coded.hint = "start the newer program again; to go back, lightwork restore a backup from before the upgrade"
		case sqlite.IsFull(err):
			coded.hint = "the disk is full: make room and run it again; nothing is half written"
		case sqlite.IsDamaged(err):
			coded.hint = "the file is damaged: keep a copy of it, then lightwork restore --role ROLE --from FILE puts a backup in its place"
		case coded.hint != "":
		case errors.Is(err, sqlite.ErrLocked):
			coded.hint = "it runs already: one process at a time writes there"
		case errors.As(err, &file) && errors.Is(file, fs.ErrPermission):
			coded.hint = otherUser
		default:
			coded.hint = nextStep(err, "")
		}
		hint := g.spell(coded.hint)
		switch {
		case g.LogFormat == formatJSON && hint != "":
			newLogger(stderr, "error", formatJSON).Error(text, "hint", hint)
		case g.LogFormat == formatJSON:
			newLogger(stderr, "error", formatJSON).Error(text)
		case hint != "":
			fmt.Fprintf(stderr, "lightwork: %s\n  hint: %s\n", text, hint)
		default:
			fmt.Fprintln(stderr, "lightwork:", text)
		}
	}
	return coded.code
}

const formatJSON = "json"

// lineLog makes a record of each line that a command says of itself.
type lineLog struct{ log *slog.Logger }

func (l lineLog) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "lightwork: "); line != "" {
			l.log.Info(line)
		}
	}
	return len(p), nil
}

func newLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelWarn
	}
	opts := &slog.HandlerOptions{Level: l}
	if format == formatJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
