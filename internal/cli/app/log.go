package app

import (
	"io"
	"log/slog"
	"strings"
)

// FormatJSON is the value of --log-format that makes a record of every line.
const FormatJSON = "json"

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
	if format == FormatJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
