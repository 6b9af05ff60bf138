package receipts_test

import (
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/receipts"
)

// naming is the invoice with an n field, which names a key, and signed again;
// change may do something to the signature, of which the recovery id comes last.
func naming(invoice string, named, signer *btcec.PrivateKey, change func(sig *[65]byte)) string {
	const signature = 104
	hrp, groups, err := bech32.DecodeNoLimit(invoice)
	if err != nil {
		panic(err)
	}
	key := must(bech32.ConvertBits(named.PubKey().SerializeCompressed(), 8, 5, true))
	field := append([]byte{19, byte(len(key) >> 5), byte(len(key) & 31)}, key...)
	signed := slices.Concat(groups[:len(groups)-signature], field)
	hash := sha256.Sum256(append([]byte(hrp), must(bech32.ConvertBits(signed, 5, 8, true))...))
	compact := must(signInvoice(signer)(hash))
	sig := [65]byte(append(slices.Clone(compact[1:]), compact[0]-27-4))
	if change != nil {
		change(&sig)
	}
	return must(bech32.Encode(hrp, append(signed, must(bech32.ConvertBits(sig[:], 8, 5, true))...)))
}

// An invoice may name its key beside the signature. What is said of it is what
// is said without a batch, and it is good or bad by the rules of that field.
func TestInvoiceThatNamesItsKey(t *testing.T) {
	node, stranger := person("node"), person("stranger")
	for _, c := range []struct {
		name          string
		named, signer *btcec.PrivateKey
		payee         *btcec.PrivateKey // in the receipt
		change        func(*[65]byte)
		want          receipts.State // of preimage_matches_invoice, which wants a good invoice
	}{
		{"its own", node, node, node, nil, receipts.Proved},
		{"a recovery id of another key", node, node, node, func(sig *[65]byte) { sig[64] ^= 1 }, receipts.Proved},
		{"high S", node, node, node, highS, receipts.Failed},
		{"another in the invoice", stranger, node, node, nil, receipts.Failed},
		{"another in both", stranger, node, stranger, nil, receipts.Failed},
		{"another in the receipt", node, node, stranger, nil, receipts.Proved},
		{"another signature", node, node, node, func(sig *[65]byte) { sig[40] ^= 1 }, receipts.Failed},
	} {
		named := recipe{receipt: func(r *receipts.Receipt) {
			r.BOLT11, r.PayeeNode = naming(r.BOLT11, c.named, c.signer, c.change), compressed(c.payee)
		}}.make().bundle
		var batch receipts.Batch
		batch.Add(recipe{}.make().bundle, pins())
		batch.Add(named, pins())
		got := batch.Verify()[1]
		if diff := cmp.Diff(receipts.VerifySingly(named, pins()), got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if claim := got.Claim(receipts.ClaimPreimage); claim.State != c.want {
			t.Errorf("%s: %s: %s", c.name, claim.State, claim.Reason)
		}
	}
}

// highS gives the signature the other S, which signs as well, and the recovery
// id that belongs to it.
func highS(sig *[65]byte) {
	var s btcec.ModNScalar
	s.SetByteSlice(sig[32:64])
	other := s.Negate().Bytes()
	copy(sig[32:64], other[:])
	sig[64] ^= 1
}
