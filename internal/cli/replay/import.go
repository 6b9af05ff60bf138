package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/replay"
)

type replayImportCmd struct {
	File string `arg:"" help:"A ReplayBundle or a run history of OpenAgents, in JSON."`
	Out  string `help:"Write here instead of standard output." placeholder:"FILE"`
}

// importLimit is what replay.Import reads at most, and a byte.
const importLimit = 64<<20 + 1

// Run writes the record as REPLAY.jsonl. What form it had, and its hash, go to
// standard error.
func (c replayImportCmd) Run(s *app.Streams) error {
	in, err := os.Open(c.File)
	if err != nil {
		return advice.Usage("name a JSON file", "%w", err)
	}
	defer in.Close()

	doc, err := io.ReadAll(io.LimitReader(in, importLimit))
	if err != nil {
		return fmt.Errorf("read %s: %w", c.File, err)
	}
	var file bytes.Buffer // nothing is written of a record that does not pass
	form, hashes, err := replay.Import(doc, &file)
	if errors.Is(err, replay.ErrReplay) {
		return advice.Usage("lightwork replay verify "+display.ShellWord(c.File)+" checks it, lightwork replay show shows it", "%w", err)
	}
	if err != nil {
		return advice.Hint(err, "docs/protocol/replay.md has the forms that are read")
	}
	if err := writeNew(c.Out, s.Out, file.Bytes()); err != nil {
		return err
	}

	fmt.Fprintf(s.Err, "%s, %s, trajectory_hash %s\n", form, display.Count(int64(hashes.Lines), "line"), hashes.Trajectory)
	return nil
}

// writeNew writes to a new file, or to out where there is no name.
func writeNew(name string, out io.Writer, data []byte) error {
	if name == "" {
		_, err := out.Write(data)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return advice.Usage("name a new file", "--out: %w", err)
	}
	_, err = f.Write(data)
	return cmp.Or(err, f.Close())
}
