package receipts

import (
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sigbatch"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Batch verifies bundles together, which takes a fraction of the time that
// their signatures take one by one. What comes out is the same. The zero value
// is empty; a batch is for one goroutine.
//
// Each bundle is graded as if its signatures were valid, and these are then
// checked in one sum. If that fails, the halves of the batch are, and so on; a
// bundle whose own signatures fail is graded again with each of them checked
// for itself, so that what is said of it is said in one place.
type Batch struct {
	later   later
	pending []pending
	bytes   int64
}

// pending is a bundle that was graded before its signatures are checked.
type pending struct {
	bundle   *Bundle
	pins     Pins
	report   Report // stands if the signatures do
	from, to int    // in later
}

const (
	// batchBundles is where one more bundle makes the others hardly faster.
	batchBundles = 128
	// batchBytes bounds what a batch keeps for a second look.
	batchBytes = 16 << 20
)

// Add grades a bundle but for its signatures. The batch keeps the bundle, which
// must not be changed, until Verify.
func (b *Batch) Add(bundle *Bundle, pins Pins) {
	p := pending{bundle: bundle, pins: pins, from: b.later.signatures.Len()}
	p.report = verify(bundle, pins, &b.later)
	p.to = b.later.signatures.Len()
	b.pending = append(b.pending, p)
	if bundle != nil {
		for _, data := range bundle.Files() {
			b.bytes += int64(len(data))
		}
	}
}

// Full reports whether it is time for Verify. More can be added, which takes
// memory and saves little.
func (b *Batch) Full() bool { return len(b.pending) >= batchBundles || b.bytes >= batchBytes }

// Verify returns the reports in the order of the bundles, each as the function
// of that name has it, and empties the batch.
func (b *Batch) Verify() []Report {
	b.settle(b.pending)
	reports := make([]Report, 0, len(b.pending))
	for _, p := range b.pending {
		reports = append(reports, p.report)
	}
	clear(b.pending) // lets go of the bundles
	b.pending, b.bytes = b.pending[:0], 0
	b.later.signatures.Reset()
	return reports
}

// settle makes the reports final.
func (b *Batch) settle(list []pending) {
	if len(list) == 0 || b.later.signatures.Valid(list[0].from, list[len(list)-1].to) {
		return
	}
	if len(list) == 1 {
		list[0].report = verify(list[0].bundle, list[0].pins, nil)
		return
	}
	b.settle(list[:len(list)/2])
	b.settle(list[len(list)/2:])
}

// later collects signatures to check together. A nil one checks each at once,
// with the library that knows nothing of batches.
type later struct {
	signatures sigbatch.Batch
	policies   map[hashing.Digest]bool // manifests that are good: a provider's bundles share one
}

// policiesKept is how many good manifests are known at most.
const policiesKept = 128

// policy says what is wrong with a policy manifest.
func (l *later) policy(hash hashing.Digest, doc []byte) error {
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

// verify is ev.Verify; nil means that the event is valid if the batch is.
func (l *later) verify(ev *bundled) error {
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

// decode is bolt11.Decode; what it returns is right if the batch is valid.
// payee, a compressed key in hex, is who is said to have signed.
func (l *later) decode(invoice, payee string) (*bolt11.Invoice, error) {
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
