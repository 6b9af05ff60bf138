package purchase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// Outputs is where the result of a purchase goes besides standard output.
type Outputs struct {
	Out   string `help:"Write the verifiable bundle to this new folder; of a job that has no receipt, such as a free one, what was asked and answered." placeholder:"DIR"`
	Files string `help:"Write RESULT.json, and the artifacts under their own names in artifacts/, to this new folder." placeholder:"DIR"`
}

// Check wants folders that are new or empty, before anything is bought.
func (o Outputs) Check() error {
	if o.Out != "" && o.Files != "" && filepath.Clean(o.Out) == filepath.Clean(o.Files) {
		return advice.Usage("name two folders: a bundle has nothing in it that a receipt does not cover", "--out and --files are the same folder")
	}
	if err := checkFolder("--out", o.Out); err != nil {
		return err
	}
	return checkFolder("--files", o.Files)
}

func checkFolder(flag, dir string) error {
	if dir == "" {
		return nil
	}
	old, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return advice.Usage("name a new folder", "%s: %w", flag, err)
	}
	if len(old) > 0 {
		return advice.Usage("name a new folder", "%s: %s is not empty", flag, dir)
	}

	return nil
}

// Write writes what there is of a purchase.
func (o Outputs) Write(ctx context.Context, bought *node.Purchases, p buyer.Purchase) error {
	if o.Out != "" && (p.ReceiptID != "" || p.ResultEvent != nil) {
		if err := WriteBundle(ctx, bought, p.RequestID, o.Out); err != nil {
			return err
		}
	}
	if o.Files == "" || p.Output == nil {
		return nil
	}
	return o.writeFiles(ctx, bought, p)
}

// artifactFolder keeps the artifacts apart from the result: a job may name one of
// its own RESULT.json.
const artifactFolder = "artifacts"

// writeFiles writes the result and its artifacts. Their names are the
// provider's: nothing is written outside the folder, or over anything in it. One
// that cannot be written does not keep the others back.
func (o Outputs) writeFiles(ctx context.Context, store buyer.Evidence, p buyer.Purchase) error {
	if err := os.MkdirAll(o.Files, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(o.Files)
	if err != nil {
		return err
	}
	defer root.Close()

	if err := writeInto(root, "RESULT.json", p.Output); err != nil {
		return err
	}

	res, _ := SandboxResult(p)
	var failed []error
	for _, a := range res.Artifacts {
		data, err := store.Content(ctx, a.SHA256)
		if err == nil {
			err = writeNamed(root, a.Path, data)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("artifact %s: %w", display.Printable(a.Path), err))
		}
	}

	return errors.Join(failed...)
}

// writeNamed writes an artifact under its own name.
func writeNamed(root *os.Root, name string, data []byte) error {
	if !filepath.IsLocal(name) {
		return errors.New("its name leads out of the folder")
	}
	return writeInto(root, path.Join(artifactFolder, name), data)
}

// writeInto makes a file that is not there yet.
func writeInto(root *os.Root, name string, data []byte) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return cmp.Or(err, f.Close())
}
