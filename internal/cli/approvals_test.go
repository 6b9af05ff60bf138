package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestReadLine reads what a person types, and gives up when told to.
func TestReadLine(t *testing.T) {
	for typed, want := range map[string]string{"Yes\n": "yes", " y \nrest": "y", "\n": "", "": "", strings.Repeat("y", 200): strings.Repeat("y", 64)} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if got, err := readLine(t.Context(), r); got != want || err != nil {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
		r.Close()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := readLine(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing typed: %v", err)
	}
}

// TestAskOnATerminalOnly: a pipe is nobody to ask.
func TestAskOnATerminalOnly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if asker(&streams{in: r}) != nil || asker(&streams{in: new(bytes.Buffer)}) != nil {
		t.Error("a pipe is taken for a terminal")
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testclass.Unavailable(t, "no terminal can be opened: "+err.Error())
	}
	defer tty.Close()
	var said bytes.Buffer
	ask := asker(&streams{in: tty, err: &said})
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
