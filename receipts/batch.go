package receipts

import (
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sigbatch"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Batch verifies bundles together. Checking many signatures in one sum takes a
// fraction of the time; the reports are those of [Verify]. The zero value is an empty
// batch. A batch must be used by one goroutine at a time.
//
// Each bundle is graded as if its signatures were valid, and then all signatures are
// checked in one sum. If the sum is wrong, each half of the batch is checked, and so
// on. A bundle with a bad signature is graded again with [Verify], which finds out
// which one it is.
type Batch struct {
	deferred signatureBatch
	pending  []pending
	bytes    int64
}

// pending is a bundle that was graded before its signatures are checked.
type pending struct {
	bundle   *Bundle
	pins     Pins
	report   Report // final if the signatures are valid
	from, to int    // its signatures in the signatureBatch
}

const (
	// batchBundles is the size from which more bundles save hardly any time.
	batchBundles = 128
	// batchBytes bounds the bundles that a batch keeps in memory for a second grading.
	batchBytes = 16 << 20
)

// Add grades everything of a bundle except its signatures. The batch keeps the bundle
// until [Batch.Verify]; it must not be changed before.
func (b *Batch) Add(bundle *Bundle, pins Pins) {
	p := pending{bundle: bundle, pins: pins, from: b.deferred.signatures.Len()}
	p.report = verify(bundle, pins, &b.deferred)
	p.to = b.deferred.signatures.Len()
	b.pending = append(b.pending, p)
	if bundle != nil {
		for _, data := range bundle.Files() {
			b.bytes += int64(len(data))
		}
	}
}

// Full reports whether it is time for [Batch.Verify]. Adding more is allowed, but
// takes memory and saves little.
func (b *Batch) Full() bool { return len(b.pending) >= batchBundles || b.bytes >= batchBytes }

// Verify returns the reports of the bundles in the order of [Batch.Add] and empties
// the batch.
func (b *Batch) Verify() []Report {
	b.settle(b.pending)
	reports := make([]Report, 0, len(b.pending))
	for _, p := range b.pending {
		reports = append(reports, p.report)
	}
	clear(b.pending) // frees the bundles
	b.pending, b.bytes = b.pending[:0], 0
	b.deferred.signatures.Reset()
	return reports
}

// settle makes the reports final.
func (b *Batch) settle(list []pending) {
	if len(list) == 0 || b.deferred.signatures.Valid(list[0].from, list[len(list)-1].to) {
		return
	}
	if len(list) == 1 {
		list[0].report = verify(list[0].bundle, list[0].pins, nil)
		return
	}
	b.settle(list[:len(list)/2])
	b.settle(list[len(list)/2:])
}

// signatureBatch collects signatures to check together. A nil one checks each
// signature at once.
type signatureBatch struct {
	signatures sigbatch.Batch
	policies   map[hashing.Digest]bool // valid manifests: the bundles of a provider share one
}

// policiesKept bounds the remembered manifests.
const policiesKept = 128

// policy checks a policy manifest, once for each hash.
func (l *signatureBatch) policy(hash hashing.Digest, doc []byte) error {
	if l != nil && l.policies[hash] {
		return nil
	}
	_, err := ParsePolicy(doc)
	if err != nil || l == nil {
		return err
	}
	if l.policies == nil || len(l.policies) == policiesKept {
		l.policies = map[hashing.Digest]bool{}
	}
	l.policies[hash] = true
	return nil
}

// verify is ev.Verify. The answer nil holds only if the batch turns out valid.
func (l *signatureBatch) verify(ev *bundleEvent) error {
	if l == nil {
		return ev.Verify()
	}
	if err := ev.checkID(); err != nil {
		return err
	}
	key, id, sig := [32]byte(mustHex(ev.PubKey)), [32]byte(mustHex(ev.ID)), [64]byte(mustHex(ev.Sig))
	if l.signatures.AddSchnorr(&key, &id, &sig) {
		return nil
	}
	return ev.checkSignature()
}

// decode is [bolt11.Decode]. Its answer holds only if the batch turns out valid. payee
// is the key that should have signed, compressed and in hex.
func (l *signatureBatch) decode(invoice, payee string) (*bolt11.Invoice, error) {
	inv, sig, err := bolt11.DecodeUnsigned(invoice)
	if err != nil {
		return nil, err
	}
	if l != nil && isHex(payee, 66) && sig.PassesWith(payee) &&
		l.signatures.AddECDSA(sigbatch.Key(mustHex(payee)), &sig.Hash, &sig.RS, sig.Recovery) {
		inv.Payee = payee
		return inv, nil
	}
	if inv.Payee, err = sig.Check(); err != nil {
		return nil, err
	}

	return inv, nil
}
