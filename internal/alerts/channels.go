package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/internal/clip"
)

// Command runs a program for each message, which it gets as JSON on its standard input. No
// shell reads the arguments. Of the node's environment it has what finds programs and the
// user's home, and no secret.
func Command(argv []string) Channel {
	return Channel{Name: "command", Send: func(ctx context.Context, m Message) error {
		doc, err := json.Marshal(m)
		if err != nil {
			return err
		}
		var said tail
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(append(doc, '\n')), &said
		for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
			if value, ok := os.LookupEnv(name); ok {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		// What it started ends with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run %s: %w: %s", argv[0], err, clip.Line(string(said), 200))
		}
		return nil
	}}
}

// tail keeps the beginning of what a program says.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p[:min(len(p), 1024-min(len(*t), 1024))]...)
	return len(p), nil
}

// Webhook posts each message as JSON to an address, which may be a secret: no error names
// it. Redirections are not followed.
func Webhook(address string) Channel {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: sendTime},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return Channel{Name: "webhook", Send: func(ctx context.Context, m Message) error {
		doc, err := json.Marshal(m)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(doc))
		if err != nil {
			return errors.New("post: the address cannot be used")
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			if call := (*url.Error)(nil); errors.As(err, &call) {
				err = call.Err
			}
			return fmt.Errorf("post: %w", err)
		}
		_ = resp.Body.Close() // what it says is nobody's business
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			return fmt.Errorf("post: the server answers %d", resp.StatusCode)
		}
		return nil
	}}
}
