package replay

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/lightwork-market/lightwork/hashing"
)

// Hashes identify one file.
type Hashes struct {
	// Trajectory is the canonical hash of the array of lines from SessionStart
	// to SessionEnd.
	Trajectory hashing.Digest
	// Redacted is the hash of the same lines without params and payload.
	Redacted hashing.Digest
	// Replay is the SHA-256 of the file's bytes.
	Replay hashing.Digest
	Lines  int
}

// hasher computes Hashes while lines pass.
type hasher struct {
	trajectory, redacted hashing.ArrayHasher
	file                 hash.Hash
	lines                int
	canonical            bool // every line so far is its own canonical form
}

func newHasher() *hasher { return &hasher{file: sha256.New(), canonical: true} }

// add takes a parsed line and its bytes in the file, with the line end. Only the
// file hash covers the header (line 1).
func (h *hasher) add(o *object, raw []byte) {
	h.lines++
	h.file.Write(raw)
	h.canonical = h.canonical && o.doc.IsCanonical()
	if h.lines > 1 {
		h.trajectory.AddObject(o.doc)
		h.redacted.AddObjectWithout(o.doc, redactableFields...)
	}
}

func (h *hasher) sums() Hashes {
	sums := Hashes{Trajectory: h.trajectory.Sum(), Redacted: h.redacted.Sum(), Lines: h.lines}
	h.file.Sum(sums.Replay[:0])
	return sums
}

// Writer writes a file line by line. It refuses a line that breaks the order or the
// pairing that [Check] requires. After an error it refuses everything. It is not safe
// for concurrent use.
type Writer struct {
	w       io.Writer
	session *session
	hasher  *hasher
	err     error
}

// NewWriter returns a Writer that writes each line to w at once.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, session: newSession(), hasher: newHasher()}
}

// Write appends one line. The first is a *ReplayHeader (a zero ReplayVersion
// means Version), the second a *SessionStart, the last a *SessionEnd.
func (w *Writer) Write(line Line) error {
	if w.err == nil {
		w.err = w.write(line)
	}
	return w.err
}

func (w *Writer) write(line Line) error {
	line, err := checkWritable(line)
	if err != nil {
		return fmt.Errorf("write replay: %w", err)
	}
	doc, fields, err := encode(line)
	if err != nil {
		return fmt.Errorf("write replay: %w", err)
	}
	if err := w.session.next(line); err != nil {
		return fmt.Errorf("write replay: %w", err)
	}

	raw := append(doc, '\n')
	w.hasher.add(fields, raw)
	if _, err := w.w.Write(raw); err != nil {
		return fmt.Errorf("write replay: %w", err)
	}
	return nil
}

// checkWritable refuses lines that may be read but not written: redacted lines, and
// payments that show their proof. It fills the version of a header.
func checkWritable(line Line) (Line, error) {
	switch l := line.(type) {
	case *ReplayHeader:
		h := *l
		if h.ReplayVersion == 0 {
			h.ReplayVersion = Version
		}
		return &h, nil
	case *ToolCall:
		if l.Params == nil {
			return nil, invalid("ToolCall %q without params", clip(l.ID))
		}
	case *RuntimeEvent:
		if l.Payload == nil {
			return nil, invalid("RuntimeEvent %d without payload", l.Seq)
		}
	case *Payment:
		if !l.proofIsNull() {
			return nil, invalid("Payment with a proof inside the session")
		}
		if l.Status != PaymentHeld && l.Status != PaymentReceived {
			return nil, invalid("Payment status %q", clip(l.Status))
		}
	}

	return line, nil
}

func (p *Payment) proofIsNull() bool {
	return len(p.PaymentProof) == 0 || string(p.PaymentProof) == "null"
}

// Close ends the file and returns its hashes. It fails when the file is not
// complete. It does not close the underlying writer.
func (w *Writer) Close() (Hashes, error) {
	if w.err != nil {
		return Hashes{}, w.err
	}
	if err := w.session.finish(); err != nil {
		w.err = fmt.Errorf("close replay: %w", err)
		return Hashes{}, w.err
	}
	w.err = fmt.Errorf("write replay: %w: the file is closed", ErrInvalid)
	return w.hasher.sums(), nil
}
