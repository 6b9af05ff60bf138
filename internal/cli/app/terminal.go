package app

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// IsTerminal reports a file that a person sits at.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// ReadLine reads one short line, lower-case; the end of the input is no line. It
// polls, because a read of a terminal cannot be interrupted.
func ReadLine(ctx context.Context, in *os.File) (string, error) {
	const most, pollMs = 64, 100
	var line strings.Builder
	for one := make([]byte, 1); line.Len() < most; {
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}

		n, err := unix.Poll(fds, pollMs)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil && !errors.Is(err, unix.EINTR):
			return "", err
		case n < 1:
			continue
		}

		if _, err := in.Read(one); errors.Is(err, io.EOF) {
			return "", nil
		} else if err != nil {
			return "", err
		}

		if one[0] == '\n' {
			break
		}
		line.WriteByte(one[0])
	}

	return strings.ToLower(strings.TrimSpace(line.String())), nil
}

// ScreenSize is the terminal's. Elsewhere lines are whole and a page has no end.
func ScreenSize(out io.Writer) (width, height int, isScreen bool) {
	if f, ok := out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h, true
		}
	}
	return math.MaxInt, 0, false
}
