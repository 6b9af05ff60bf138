package devnet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// maxReply bounds a node's answer, in bytes.
const maxReply = 8 << 20

// btcd is the chain. It has no peers; only its RPC port is open.
type btcd struct {
	binDir, dir string
	address     string // RPC
	user, pass  string
	certFile    string
	ports       ports // of the whole network

	proc *process
	http *http.Client
}

func newBTCD(binDir, dir string) (*btcd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make btcd directory: %w", err)
	}
	b := &btcd{
		binDir: binDir, dir: dir,
		user: "devnet", pass: rand.Text(),
		certFile: filepath.Join(dir, "rpc.cert"),
	}
	addresses, err := b.ports.take(1)
	if err != nil {
		return nil, err
	}
	b.address = addresses[0]
	return b, nil
}

// start runs btcd until it answers. Blocks are mined to miningAddress, which may be
// empty if none are mined.
func (b *btcd) start(ctx context.Context, miningAddress string) error {
	conf := fmt.Sprintf(`[Application Options]
simnet=1
txindex=1
nolisten=1
nodnsseed=1
datadir=%[1]s/data
logdir=%[1]s/logs
rpclisten=%[2]s
rpcuser=%[3]s
rpcpass=%[4]s
rpccert=%[5]s
rpckey=%[1]s/rpc.key
`, b.dir, b.address, b.user, b.pass, b.certFile)
	if miningAddress != "" {
		conf += "miningaddr=" + miningAddress + "\n"
	}

	// The argument list is readable by all users, so the password is in the file.
	path := filepath.Join(b.dir, "btcd.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		return fmt.Errorf("write btcd configuration: %w", err)
	}
	proc, err := startProcess(filepath.Join(b.binDir, "btcd"),
		filepath.Join(b.dir, "output.log"), "--configfile="+path)
	if err != nil {
		return err
	}
	b.proc = proc
	return poll(ctx, "btcd", func(ctx context.Context) (bool, error) {
		if err := proc.exited(); err != nil {
			return false, err
		}
		if b.http == nil {
			client, err := tlsClient(b.certFile)
			if err != nil {
				return false, nil // the certificate is not written yet
			}
			b.http = client
		}

		_, err := b.height(ctx)
		return err == nil, nil
	})
}

func (b *btcd) stop() {
	if b.proc != nil {
		b.proc.stop()
	}
	if b.http != nil {
		b.http.CloseIdleConnections()
	}
}

func (b *btcd) generate(ctx context.Context, blocks int) error {
	if err := b.call(ctx, "generate", nil, blocks); err != nil {
		return fmt.Errorf("mine %d blocks: %w", blocks, err)
	}
	return nil
}

func (b *btcd) height(ctx context.Context) (int, error) {
	var height int
	if err := b.call(ctx, "getblockcount", &height); err != nil {
		return 0, fmt.Errorf("get block height: %w", err)
	}
	return height, nil
}

// call makes one JSON-RPC request.
func (b *btcd) call(ctx context.Context, method string, result any, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+b.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth(b.user, b.pass)
	resp, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return err
	}
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(doc, &reply); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("btcd: %s", reply.Error.Message)
	}
	if result == nil {
		return nil
	}

	return json.Unmarshal(reply.Result, result)
}
