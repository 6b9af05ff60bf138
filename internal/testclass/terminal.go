package testclass

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal opens a new terminal: what is written to tty can be read from screen.
func Terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	t.Cleanup(func() { tty.Close() })
	return screen, tty
}
