package receipts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

type receiptsPageCmd struct {
	Out string `help:"A new folder." required:"" placeholder:"DIR"`
}

// Run writes the page that verifies bundles in a browser. It is built from
// sdk/verify-js, the second verifier, and lies beside this program; open it
// from the disk, or put it on any static host.
func (c receiptsPageCmd) Run(s *app.Streams) error {
	pageFiles := [...]string{"index.html", "verify.js"}
	from := filepath.Join(filepath.Dir(display.Self()), "verify-page")
	var docs [len(pageFiles)][]byte
	for i, name := range pageFiles {
		doc, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			return advice.Hint(fmt.Errorf("the page is not beside this program, in %s", from), "make page builds it, with Node 20 or later and npm")
		}
		if err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		docs[i] = doc
	}

	if err := os.Mkdir(c.Out, 0o755); err != nil {
		return advice.Usage("name a new folder", "--out: %w", err)
	}

	for i, name := range pageFiles {
		if err := os.WriteFile(filepath.Join(c.Out, name), docs[i], 0o644); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}

	_, err := fmt.Fprintf(s.Out, "%s\nOpen it and drop a bundle on it. It asks no network; nothing leaves the machine.\n", filepath.Join(c.Out, pageFiles[0]))
	return err
}
