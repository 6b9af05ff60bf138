package dvm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

func startGoNostr(tb testing.TB, w world) seller {
	tb.Helper()
	args := self(tb, "go-nostr", w.url)
	p, key := launch(tb, w, exec.CommandContext(w.ctx, args[0], args[1:]...))
	return seller{"go-nostr", key, p}
}

// serveGoNostr is the smallest DVM of go-nostr, which verifies what a relay
// sends: it stores nothing, and a result that no relay takes is lost.
func serveGoNostr(ctx context.Context, url string) error {
	secret := nostr.GeneratePrivateKey()
	key, err := nostr.GetPublicKey(secret)
	if err != nil {
		return err
	}
	relay, err := nostr.RelayConnect(ctx, url)
	if err != nil {
		return err
	}
	sub, err := relay.Subscribe(ctx, nostr.Filters{{Kinds: []int{kindRequest}, Tags: nostr.TagMap{"p": {key}}}})
	if err != nil {
		return err
	}
	live := sub.EndOfStoredEvents
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-live:
			live = nil
			fmt.Println(key)
		case req, ok := <-sub.Events:
			if !ok {
				return relay.ConnectionError
			}
			go func() {
				if err := answer(ctx, relay, secret, req); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}()
		}
	}
}

func answer(ctx context.Context, relay *nostr.Relay, secret string, req *nostr.Event) error {
	input := req.Tags.Find("i")
	if input == nil {
		return nil
	}
	result := nostr.Event{
		Kind: kindResult, CreatedAt: nostr.Now(), Content: input[1],
		Tags: nostr.Tags{{"request", req.String()}, input, {"e", req.ID}, {"p", req.PubKey}},
	}
	if err := result.Sign(secret); err != nil {
		return err
	}
	return relay.Publish(ctx, result)
}

// startNode starts the DVM of an npm project, whose packages it installs first.
func startNode(tb testing.TB, w world, project string) seller {
	tb.Helper()
	if _, err := os.Stat(filepath.Join(project, "node_modules")); err != nil {
		install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = project
		if out, err := install.CombinedOutput(); err != nil {
			tb.Fatalf("npm ci in %s: %v\n%s", project, err, out)
		}
	}
	p, key := launch(tb, w, exec.CommandContext(w.ctx, "node", filepath.Join(project, "serve.mjs"), w.url))
	return seller{project, key, p}
}
