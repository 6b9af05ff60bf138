package provider

import "github.com/lightwork-market/lightwork/hashing"

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
