package sigbatch

import (
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
)

// A batch that remembers keys says of each what the key says, however many
// there are and however often it is asked.
func TestValidKeyRemembers(t *testing.T) {
	var b Batch
	for round := range 2 {
		for i := range maxPoints {
			_, public := btcec.PrivKeyFromBytes([]byte{byte(i >> 8), byte(i), 1})
			key := Key(public.SerializeCompressed())
			for _, form := range []byte{2, 3, 4} { // both are keys, and the third is none
				key[0] = form
				want, valid := key.point()
				if got, ok := b.point(key); ok != valid || got != want || b.ValidKey(key) != valid {
					t.Fatalf("round %d: key %d in form %d is %v, want %v", round, i, form, ok, valid)
				}
			}
			if len(b.points) > maxPoints {
				t.Fatalf("%d keys are remembered", len(b.points))
			}
		}
	}
}
