package wallet

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestRestoreIsSeenToGoOn: on a terminal, in one line; elsewhere it says nothing
// but its end.
func TestRestoreIsSeenToGoOn(t *testing.T) {
	if tell, end := restoreProgress(&app.Streams{Err: new(bytes.Buffer)}); tell != nil {
		t.Error("told where nobody looks")
	} else {
		end()
	}
	screen, tty := testclass.Terminal(t)
	tell, end := restoreProgress(&app.Streams{Err: tty})
	if tell == nil {
		t.Fatal("a terminal is not taken for one")
	}
	tell(100, wallets.RestoredNotes{})
	tell(200, wallets.RestoredNotes{Notes: 3, Sats: 21})
	end()
	tty.Close()
	said, _ := io.ReadAll(screen) // ends with an error: nobody has the other end
	lines := strings.Split(strings.TrimSuffix(string(said), "\r\n"), "\r")
	if last := lines[len(lines)-1]; len(lines) != 3 || strings.TrimSpace(last) != "asked the mint about 200 notes, found 21 sat in 3" {
		t.Errorf("said %q", said)
	}
}

// TestWordsAreShownOnTheTerminal, to who says yes, and nowhere else.
func TestWordsAreShownOnTheTerminal(t *testing.T) {
	dir := t.TempDir()
	if _, err := node.WriteSetup(dir, config.Setup{ProviderWallet: "none", BuyerWallet: "cashu", Mint: "127.0.0.1:1", Relay: "ws://127.0.0.1:1", Name: "a buyer"}); err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(dir, "keys", "buyer-cashu.seed"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.TrimSpace(string(seed))
	for answer, shown := range map[string]bool{"y\n": true, "n\n": false} {
		screen, tty := testclass.Terminal(t)
		if _, err := screen.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		var diag bytes.Buffer
		err := walletCashuSeedCmd{}.Run(t.Context(), &app.Streams{In: tty, Out: tty, Err: &diag}, &app.Globals{Config: filepath.Join(dir, "lightwork.yaml")})
		tty.Close()
		said, _ := io.ReadAll(screen)
		if (err == nil) != shown || strings.Contains(string(said), words) != shown {
			t.Errorf("%q: shown %v, %v", answer, strings.Contains(string(said), words), err)
		}
		if strings.Contains(diag.String(), words) {
			t.Error("diagnostics have the words")
		}
	}
}
