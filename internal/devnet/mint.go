package devnet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// mintPrograms is the Cashu mint gonuts, whose program is named after its folder,
// mint.
func mintPrograms() set {
	return set{"mint", map[string]string{"mint": "github.com/elnosh/gonuts/cmd/mint"}, ""}
}

// BuildMint builds the Cashu mint pinned by mint/go.mod, like [Build] for the
// Lightning programs: about three minutes on two cores the first time.
func BuildMint(ctx context.Context, cacheDir string) (binDir string, err error) {
	return mintPrograms().build(ctx, cacheDir)
}

// Mint is a Cashu mint with a simulated Lightning node, on which each invoice is
// paid at once. Its notes survive a restart.
type Mint struct {
	binDir, dir string
	address     string
	feePPK      int
	proc        *process
}

// StartMint runs the mint of binDir with its files in dir and waits until it
// answers. feePPK is its fee for each spent note, in thousandths of a sat.
func StartMint(ctx context.Context, binDir, dir string, feePPK int) (*Mint, error) {
	addresses, err := new(ports).take(1)
	if err != nil {
		return nil, err
	}
	m := &Mint{binDir: binDir, dir: dir, address: addresses[0], feePPK: feePPK}
	return m, m.Start(ctx)
}

// Address returns its address as host:port.
func (m *Mint) Address() string { return m.address }

// Start runs the mint again after Kill or Stop.
func (m *Mint) Start(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(m.dir, "db"), 0o700); err != nil {
		return fmt.Errorf("make mint's directory: %w", err)
	}

	// The mint reads its settings from a file of this name in the working
	// directory.
	settings := fmt.Sprintf("MINT_PORT=%s\nMINT_DB_PATH=%s\nDERIVATION_PATH_IDX=0\nINPUT_FEE_PPK=%d\nLIGHTNING_BACKEND=FakeBackend\n",
		m.address[len("127.0.0.1:"):], filepath.Join(m.dir, "db"), m.feePPK)
	if err := os.WriteFile(filepath.Join(m.dir, ".env"), []byte(settings), 0o600); err != nil {
		return fmt.Errorf("write mint's settings: %w", err)
	}
	var err error
	if m.proc, err = startProcess(filepath.Join(m.binDir, "mint"), filepath.Join(m.dir, "output.log")); err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	for {
		if err := m.answers(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-m.proc.done:
			return errors.Join(errors.New("the mint ended"), m.proc.exited())
		case <-ctx.Done():
			m.proc.kill()
			return fmt.Errorf("wait for mint: %w", ctx.Err())
		}
	}
}

func (m *Mint) answers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+"/v1/keysets", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Kill ends the mint at once, Stop gracefully.
func (m *Mint) Kill() { m.proc.kill() }

// Stop ends the mint and waits for it.
func (m *Mint) Stop() { m.proc.stop() }
