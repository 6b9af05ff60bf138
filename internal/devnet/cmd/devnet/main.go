// Command devnet starts btcd and two lnd nodes with a channel on simnet, runs
// a command with the nodes in its environment, and stops them:
//
//	go run ./internal/devnet/cmd/devnet bin/lightwork demo
//
// LIGHTWORK_DEMO_PROVIDER_LND and LIGHTWORK_DEMO_BUYER_LND are set to
// ADDRESS,TLS_CERT,MACAROON of the payee and of the payer.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/devnet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: devnet COMMAND [ARG ...]")
		return 2
	}
	fmt.Fprintln(os.Stderr, "devnet: starting btcd and two lnd nodes; the first time they are built, which takes minutes")
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	net, err := devnet.Start(ctx, devnet.Config{Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, "devnet:", err)
		return 1
	}
	defer net.Stop()

	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LIGHTWORK_DEMO_PROVIDER_LND="+wallet(net.Alice), "LIGHTWORK_DEMO_BUYER_LND="+wallet(net.Bob))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr

	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "devnet:", err)
		return 1
	}

	return 0
}

func wallet(n *devnet.Node) string {
	return n.Address() + "," + n.TLSCertFile() + "," + n.MacaroonFile()
}
