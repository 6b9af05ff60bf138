package provider

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/receipts"
)

// sealed is a result in boxes, and the hash of the seal that it is committed to by.
type sealed struct {
	commitment hashing.Digest
	key        string // of boxes that no payment opens, in hex: then there is no commitment
	boxes      [][]byte
}

// seal puts the result, its trajectory and its artifacts into boxes that the
// preimage opens.
func (p *Provider) seal(job Job, r Result, replayFile []byte, artifacts [][]byte) (*sealed, error) {
	contents := append([][]byte{r.Output, replayFile}, artifacts...)
	list := make([]receipts.SealedContent, len(contents))
	for i, content := range contents {
		role := receipts.RoleArtifact
		if i < 2 {
			role = []string{receipts.RoleResult, receipts.RoleReplay}[i]
		}
		list[i] = receipts.SealedContent{Role: role, Digest: hashing.Bytes(content), Size: int64(len(content))}
	}

	doc, err := receipts.NewSeal(charge.Terms(&job, &r), list).Canonical()
	if err != nil { // more contents than a seal lists
		return nil, fmt.Errorf("%w: %w", errTooLarge, err)
	}
	s := &sealed{commitment: hashing.Bytes(doc)}
	key, err := receipts.NewSealKey(p.collector.Preimage(job.RequestID, &job.Charge), job.QuoteHash, job.RequestID, s.commitment)
	if err != nil {
		return nil, err
	}

	switch s.boxes, err = key.SealAll(doc, contents); {
	case errors.Is(err, receipts.ErrInvalid):
		return nil, fmt.Errorf("%w: %w", errTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("seal result: %w", err)
	}

	return s, nil
}

// beside are the documents of a result that may travel beside its event.
func beside(r Result, s *sealed, replayFile []byte) map[hashing.Digest][]byte {
	if s == nil {
		return map[hashing.Digest][]byte{r.OutputHash: r.Output, r.Replay: replayFile}
	}
	blobs := map[hashing.Digest][]byte{}
	for _, box := range s.boxes[:min(2, len(s.boxes))] { // the same two, or all in one
		blobs[hashing.Bytes(box)] = box
	}
	return blobs
}
