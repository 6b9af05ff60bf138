package model

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

const maxKeyBytes = 4 << 10

// readKey reads the key from the configured place. Errors never contain any of it.
func readKey(file, env string) (string, error) {
	switch {
	case file != "" && env != "":
		return "", errors.New("set either a key file or a key variable, not both")
	case file != "":
		key, err := readKeyFile(file)
		if err != nil {
			return "", fmt.Errorf("read key file: %w", err)
		}
		return key, nil
	case env != "":
		key, err := cleanKey(os.Getenv(env))
		if err != nil {
			return "", fmt.Errorf("environment variable %s: %w", env, err)
		}
		return key, nil
	}

	return "", nil
}

// readKeyFile checks the opened file and not its path, so that it cannot be
// replaced in between. It opens without blocking, in case the path is a FIFO.
func readKeyFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()

	st, err := f.Stat()
	if err != nil {
		return "", err
	}

	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case !ok || (int(sys.Uid) != os.Geteuid() && sys.Uid != 0):
		return "", fmt.Errorf("%s is owned by another user", path)
	case st.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be read by others: make it mode 0600", path)
	}

	raw, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	if err != nil {
		return "", err
	}
	return cleanKey(string(raw))
}

// cleanKey strips the newline that editors add. It refuses characters that a header
// cannot hold, since net/http would repeat the key in its error.
func cleanKey(raw string) (string, error) {
	key := strings.TrimSpace(raw)
	switch {
	case key == "":
		return "", errors.New("is empty")
	case len(raw) > maxKeyBytes:
		return "", errors.New("is too long for a key")
	}

	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return "", errors.New("contains a character that a key cannot have")
		}
	}
	return key, nil
}
