package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/payments/nwc"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// asWallet is the argument that makes the test binary a wallet service of play money
// that has the methods named, and no others.
const asWallet = "wallet-service"

// runAsWallet serves until it is interrupted: wallet-service RELAY LEDGER FILE METHOD...
// The address for the one application goes into the file.
func runAsWallet(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	if err := serveWallet(ctx, args[0], args[1], args[2], args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveWallet(ctx context.Context, relay, ledger, file string, methods []string) error {
	var token [32]byte
	rand.Read(token[:]) // never fails
	money, err := playnet.Dial(ledger, hex.EncodeToString(token[:]))
	if err != nil {
		return err
	}
	defer money.Close()
	if err := money.OpenWallet(ctx, "service-"+hex.EncodeToString(token[:4])); err != nil {
		return err
	}

	book, err := nwc.OpenBook(ctx, file+".book", nil)
	if err != nil {
		return err
	}
	defer book.Close()
	app, address, err := nwc.NewApp("seller", []string{relay})
	if err != nil {
		return err
	}
	app.Methods = nil
	for _, m := range methods {
		app.Methods = append(app.Methods, nwc.Method(m))
	}
	service, err := nwc.NewService(nwc.ServiceConfig{Wallet: money, Book: book, Apps: []nwc.App{app}, Relays: []string{relay}})
	if err != nil {
		return err
	}

	if err := os.WriteFile(file+".new", []byte(address.URI()+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	return service.Serve(ctx)
}

// TestSellsOverWalletConnect: what a wallet service cannot be paid in is neither
// announced nor quoted.
func TestSellsOverWalletConnect(t *testing.T) {
	runScripts(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "named", "nwcsells.txtar")},
		Setup: func(e *testscript.Env) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			e.Setenv("WALLET", program)
			return nil
		},
	})
}

// TestSellsOverTheSDKsWallet: a wallet service of another program's, which chooses the
// payment hashes, sells prepaid and postpaid.
func TestSellsOverTheSDKsWallet(t *testing.T) {
	const project = "../../interop/nwc"
	outside.Install(t, project)
	runScripts(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "named", "nwcsdk.txtar")},
		Setup: func(e *testscript.Env) error {
			script, err := filepath.Abs(filepath.Join(project, "seller.mjs"))
			if err != nil {
				return err
			}
			e.Setenv("SDK", script)
			return nil
		},
	})
}
