package buying

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
)

// maxFrame bounds a line of an answer, in bytes.
const maxFrame = 1 << 20

// errGone: the running buyer does not work on it, or is gone. Whoever asked it goes on
// alone.
var errGone = errors.New("no buyer runs here that works on it")

// Remote is the buyer that runs on a data folder.
type Remote struct {
	key  string
	http *http.Client
}

// Dial finds the buyer that runs at a socket; nil if none does.
func Dial(ctx context.Context, socket string) (*Remote, error) {
	key, err := host.ReadKey(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	conn, err := dial(ctx, "", "")
	if err != nil {
		return nil, ctx.Err() // nobody listens on what a killed one left
	}
	conn.Close()
	return &Remote{key: key, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}}, nil
}

// take has the running buyer work on a purchase or a panel; errGone if it does not.
func (r *Remote) take(ctx context.Context, id string) error {
	resp, err := r.post(ctx, "/v1/take", id)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// follow has it work on a purchase or panel and tells its steps; errGone if it does not.
func (r *Remote) follow(ctx context.Context, id string, tell func(member string, step buyer.Progress)) error {
	resp, err := r.post(ctx, "/v1/follow", id)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxFrame)
	for lines.Scan() {
		var f frame
		if err := hashing.UnmarshalKnown(lines.Bytes(), &f); err != nil {
			return fmt.Errorf("answer of the running buyer: %w", err)
		}
		if f.End != nil {
			return f.End.err()
		}
		if f.Step != nil {
			tell(f.Member, *f.Step)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errGone
}

func (r *Remote) post(ctx context.Context, path, id string) (*http.Response, error) {
	body, err := json.Marshal(named{ID: id})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp, err := r.http.Do(req)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errGone
	case resp.StatusCode == http.StatusOK:
		return resp, nil
	}

	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if resp.StatusCode == http.StatusConflict {
		return nil, errGone
	}
	return nil, fmt.Errorf("the running buyer answers %s: %s", resp.Status, bytes.TrimSpace(said))
}
