package purchase

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestAskOnATerminalOnly: a pipe is nobody to ask.
func TestAskOnATerminalOnly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if Asker(&app.Streams{In: r}) != nil || Asker(&app.Streams{In: new(bytes.Buffer)}) != nil {
		t.Error("a pipe is taken for a terminal")
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testclass.Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	defer tty.Close()
	var said bytes.Buffer
	ask := Asker(&app.Streams{In: tty, Err: &said})
	if ask == nil {
		t.Fatal("a terminal is not taken for one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ask(ctx, buyer.Approval{RuleID: "large", Provider: strings.Repeat("79be667ef9dcbbac", 4), SchemaID: "oa.x", Mode: "hold", PriceMsats: 20_000})
	if !errors.Is(err, context.Canceled) || !strings.Contains(said.String(), "Rule large asks: pay 20 sat") {
		t.Errorf("%v, said %q", err, said.String())
	}
}
