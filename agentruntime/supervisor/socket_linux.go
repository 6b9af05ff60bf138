package supervisor

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	socketName = "s"
	// maxSocketPath is what a Unix socket address holds.
	maxSocketPath = 107
)

// PrepareSocketDir creates the directory or checks that nobody but us can
// change it. It can be traversed by agents of other users; each socket is in
// a directory that only its agent's user can enter.
func PrepareSocketDir(dir string) error {
	if n := len(dir) + len("/12345678/") + len(socketName); n > maxSocketPath {
		return fmt.Errorf("supervisor: socket path would be %d bytes, the limit is %d: choose a shorter directory than %s", n, maxSocketPath, dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("create socket directory: %w", err)
	}

	switch err := os.Mkdir(dir, 0o711); {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrExist):
		return fmt.Errorf("create socket directory: %w", err)
	}

	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("check socket directory: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("supervisor: %s must be a directory of ours that nobody else can write", dir)
	}

	return nil
}

// listen makes the private directory and the socket of one run.
func listen(base string, uid, gid int) (id string, ln *net.UnixListener, err error) {
	var b [4]byte
	_, _ = rand.Read(b[:])
	id = hex.EncodeToString(b[:])
	dir := filepath.Join(base, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("create run directory: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()

	path := filepath.Join(dir, socketName)
	ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", nil, fmt.Errorf("listen for the agent: %w", err)
	}
	if err := restrict(dir, path, uid, gid); err != nil {
		ln.Close()
		return "", nil, err
	}

	return id, ln, nil
}

// restrict leaves the socket to the agent's user.
func restrict(dir, path string, uid, gid int) error {
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("restrict socket: %w", err)
	}
	if uid == 0 && gid == 0 {
		return nil
	}

	for _, p := range []string{path, dir} {
		if err := os.Lchown(p, uid, gid); err != nil {
			return fmt.Errorf("give socket to uid %d: %w", uid, err)
		}
	}
	return nil
}

// peer returns the process and user at the other end when it connected.
func peer(conn syscall.Conn) (pid, uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, 0, fmt.Errorf("read peer credentials: %w", err)
	}
	return int(cred.Pid), int(cred.Uid), nil
}
