// Package app is what all commands share: their streams and global flags, tables and
// JSON on their output, and how an error is told, with its hint and exit code.
package app

import (
	"io"
	"log/slog"

	"github.com/alecthomas/kong"

	"github.com/lightwork-market/lightwork/internal/node"
)

// Globals are the flags every command has.
type Globals struct {
	Config    string           `short:"c" help:"The configuration file." default:"lightwork.yaml" env:"LIGHTWORK_CONFIG"`
	LogLevel  string           `help:"debug, info, warn or error; logs go to stderr." default:"warn" enum:"debug,info,warn,error"`
	LogFormat string           `help:"text or json." default:"text" enum:"text,json"`
	Printed   kong.VersionFlag `name:"version" help:"Print the version."`
}

// Streams is where a command reads and writes. Results go to out, diagnostics
// and progress to err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Log *slog.Logger
	// Told is what the operator of a program that runs on is told in any case,
	// whatever --log-level says: a line with its time for each thing that happens.
	Told *slog.Logger
	// Version is the program's.
	Version string
}

// NewStreams are the streams of a command with these flags, of a program of that
// version.
func NewStreams(g *Globals, version string, in io.Reader, out, err io.Writer) *Streams {
	s := &Streams{
		In: in, Out: out, Err: err, Version: version,
		Log: newLogger(err, g.LogLevel, g.LogFormat), Told: newLogger(err, "info", g.LogFormat),
	}
	if g.LogFormat == FormatJSON { // then nothing else is on stderr
		s.Err = lineLog{s.Told}
	}
	return s
}

// Open reads the configuration that the flags name.
func Open(s *Streams, g *Globals) (*node.Node, error) {
	return node.Load(g.Config, s.Version, s.Log)
}
