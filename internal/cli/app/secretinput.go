package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/node/keys"
)

// maxKeyInput bounds what is read from the standard input.
const maxKeyInput = 4096

// SecretInput reads one secret of one line: from the terminal without showing it, or
// from a pipe, which may stay open.
func SecretInput(s *Streams, what string) (string, error) {
	return secretOf(what, func() (string, error) {
		line, err := bufio.NewReader(io.LimitReader(s.In, maxKeyInput)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return line, err
	})
}

// SecretText is SecretInput for what a pipe may have in several lines.
func SecretText(s *Streams, what string) (string, error) {
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
