package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/replay"
)

// checkedReplay opens a trajectory and checks it: what is shown of it is what
// its hashes cover. The file is at its beginning again.
func checkedReplay(path string) (*os.File, *replay.Summary, error) {
	f, err := openReplay(path)
	if err != nil {
		return nil, nil, err
	}
	sum, err := replay.Check(f, replay.Limits{})
	if err != nil {
		err = advice.Hint(err, "the file is no complete trajectory; nothing of it can be relied on")
	} else {
		_, err = f.Seek(0, io.SeekStart)
	}

	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, sum, nil
}

// eachReplayLine calls f with every line of a checked trajectory, parsed and as
// it stands.
func eachReplayLine(r io.Reader, f func(line replay.Line, raw []byte) error) error {
	in := bufio.NewReader(r)
	for {
		raw, err := in.ReadBytes('\n')
		if len(raw) > 1 {
			line, perr := replay.ParseLine(raw[:len(raw)-1])
			if perr != nil {
				return perr
			}
			if ferr := f(line, raw[:len(raw)-1]); ferr != nil {
				return ferr
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read trajectory: %w", err)
		}
	}
}
