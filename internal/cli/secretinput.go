package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/node/keys"
)

// secretInput reads one secret of one line: from the terminal without showing it, or
// from a pipe, which may stay open.
func secretInput(s *app.Streams, what string) (string, error) {
	return secretOf(what, func() (string, error) {
		line, err := bufio.NewReader(io.LimitReader(s.In, maxKeyInput)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return line, err
	})
}

// secretText is secretInput for what a pipe may have in several lines.
func secretText(s *app.Streams, what string) (string, error) {
	return secretOf(what, func() (string, error) {
		all, err := io.ReadAll(io.LimitReader(s.In, maxKeyInput))
		return string(all), err
	})
}

func secretOf(what string, piped func() (string, error)) (string, error) {
	text, err := keys.AskSecret(what)
	if !errors.Is(err, keys.ErrNoTerminal) {
		return text, err
	}
	if text, err = piped(); err != nil {
		return "", fmt.Errorf("read the standard input: %w", err)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", advice.Usage("pipe it in, or type it on a terminal", "the standard input holds no %s", what)
	}
	return text, nil
}
