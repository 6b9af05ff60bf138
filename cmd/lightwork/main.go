// Command lightwork plays every role of a job market on Nostr: relay,
// provider, buyer, wallet of play money, and the tools around them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes, documented in docs/cli.md.
const (
	exitOK     = 0
	exitFailed = 1 // it was tried and did not work
	exitUsage  = 2 // the command line, the configuration or an input is not usable
	exitOpen   = 3 // not finished: run it again later, or a proof is missing
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// streams is where a command reads and writes. Results go to out, diagnostics
// and progress to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	log *slog.Logger
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
	return &codedError{exitFailed, hint, err}
}

// exitCode is an error without words: the command has said it all.
func exitCode(code int) error {
	if code == exitOK {
		return nil
	}
	return &codedError{code: code, err: errSilent}
}

var errSilent = errors.New("")

// run is main without the process: it parses, dispatches and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if agent := agentMain(args); agent != nil {
		return agent(ctx, stderr)
	}
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("lightwork"),
		kong.Description("A node for a job market on Nostr: sell and buy compute, paid over Lightning, with receipts anyone can check."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ShortUsageOnError(),
	)
	if err != nil {
		fmt.Fprintln(stderr, "lightwork:", err)
		return exitUsage
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	var bad *kong.ParseError
	if errors.As(err, &bad) && bad.Context.Error == nil && isGroup(bad.Context) {
		return report(stderr, bad.Context.PrintUsage(false))
	}
	if err != nil {
		fmt.Fprintln(stderr, "lightwork:", err)
		fmt.Fprintln(stderr, "  hint: lightwork --help lists the commands, lightwork COMMAND --help explains one")
		return exitUsage
	}
	s := &streams{in: stdin, out: stdout, err: stderr, log: newLogger(stderr, c.LogLevel)}
	slog.SetDefault(s.log)
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.Bind(s, &c.globals)
	return report(stderr, kctx.Run())
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
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	coded := &codedError{code: exitFailed}
	_ = errors.As(err, &coded)
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(stderr, "lightwork:", printable(err.Error()))
		if coded.hint != "" {
			fmt.Fprintln(stderr, "  hint:", coded.hint)
		}
	}
	return coded.code
}

func newLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}
