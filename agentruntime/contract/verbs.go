package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// verbs are what a script can do; doc.go says what they mean.
var verbs = map[string]func(p *player, arg string) error{
	"session":         (*player).session,
	"again":           (*player).again,
	"core":            (*player).say,
	"core-slow":       (*player).saySlowly,
	"core-lines":      (*player).sayInLines,
	"core-padded":     (*player).sayPadded,
	"core-burst":      (*player).sayMany,
	"core-raw":        (*player).sayRaw,
	"core-bytes":      (*player).sayBytes,
	"agent":           (*player).expect,
	"agent-each":      (*player).expectEach,
	"agent-or-closed": (*player).expectOrClosed,
	"agent-or-skip":   (*player).expectOrSkip,
	"never":           (*player).never,
	"silent":          (*player).silent,
	"listen":          (*player).listen,
	"alive":           (*player).alive,
	"alive-or-closed": (*player).aliveOrClosed,
	"closed":          (*player).closed,
	"unread":          (*player).unread,
	"eof":             (*player).eof,
	"hangup":          (*player).hangup,
	"signal":          (*player).signal,
	"exit":            (*player).exit,
	"within":          (*player).within,
	"misuse":          (*player).misuse,
	"file":            (*player).file,
}

// again replaces an agent that has closed the connection.
func (p *player) again(string) error {
	if !p.gone {
		return nil
	}
	p.end()
	if err := p.start(); err != nil {
		return err
	}
	return p.session("")
}

func (p *player) within(arg string) error {
	d, err := time.ParseDuration(arg)
	p.limit = d
	return err
}

func (p *player) eof(string) error {
	if err := p.connected(); err != nil {
		return err
	}
	if err := p.conn.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return nil
}

func (p *player) hangup(string) error {
	if err := p.connected(); err != nil {
		return err
	}
	p.gone = true
	return p.conn.Close()
}

func (p *player) signal(arg string) error {
	if arg != "TERM" {
		return fmt.Errorf("unknown signal %q", arg)
	}
	p.proc.asked = true
	p.proc.signal(syscall.SIGTERM)
	return nil
}

// exit waits for the end of the process, which may have more to say.
func (p *player) exit(arg string) error {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return err
	}

	deadline := time.Now().Add(d)
	for !p.gone && p.conn != nil {
		switch _, err := p.next(deadline); {
		case errors.Is(err, errClosed), errors.Is(err, os.ErrDeadlineExceeded):
			p.gone = true
		case err != nil:
			return err
		}
	}

	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()

	select {
	case <-p.proc.exited:
		return nil
	case <-timer.C:
		return fmt.Errorf("the agent still runs after %s", d)
	}
}

// unread waits until the agent has written so many bytes that nobody reads.
func (p *player) unread(arg string) error {
	want, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return err
	}

	for deadline := time.Now().Add(p.limit); ; time.Sleep(5 * time.Millisecond) {
		waiting := 0
		err := raw.Control(func(fd uintptr) { waiting, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		switch {
		case err != nil:
			return err
		case waiting >= want:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the agent has written %d bytes", waiting)
		}
	}
}

// file checks a file that the agent returned a reference to, and removes it.
func (p *player) file(arg string) error {
	name, size, _ := strings.Cut(p.vars.fill(arg), " ")
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q is not below the agent's working directory", name)
	}
	path := filepath.Join(p.run.agent.Dir, name)

	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %q", name)
	case err != nil:
		return err
	case !st.Mode().IsRegular() || fmt.Sprint(st.Size()) != size:
		return fmt.Errorf("%q is %s of %d bytes", name, st.Mode().Type(), st.Size())
	}

	return os.Remove(path)
}
