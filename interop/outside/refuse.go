package outside

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Refused starts an agent, lets it say hello to a node that refuses it, and
// returns what it printed and its exit status.
func Refused(t *testing.T, dir string, command ...string) (said string, status int) {
	t.Helper()
	folder, err := os.MkdirTemp("", "no") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)

	socket := filepath.Join(folder, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	refused := make(chan error, 1)
	go func() { refused <- refuse(l) }()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OPENSENTIENCE_SOCKET_PATH="+socket, "OPENSENTIENCE_SESSION_TOKEN=secret-token", "OPENSENTIENCE_AGENT_ID=com.lightwork.reference")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	l.Close() // also where the agent never came
	if err := <-refused; err != nil {
		t.Errorf("refuse: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// refuse reads one frame, and waits for the other side to close after the answer.
func refuse(l net.Listener) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()

	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	var hello struct{ ID string }
	if err := json.NewDecoder(io.LimitReader(conn, int64(binary.BigEndian.Uint32(size[:])))).Decode(&hello); err != nil {
		return err
	}
	doc := []byte(`{"v":1,"type":"core.welcome","id":"w","ts":"2026-01-01T00:00:00Z","in_reply_to":"` + hello.ID +
		`","error":{"code":"protocol.unauthorized","message":"the token was\nused before"},"payload":{}}`)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(doc))), doc...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
