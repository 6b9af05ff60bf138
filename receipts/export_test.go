package receipts

// VerifySingly is Verify with each signature checked for itself: what Batch
// must come to.
func VerifySingly(b *Bundle, pins Pins) Report { return verify(b, pins, nil) }

// BoundBy says why a result event is not the provider's over these terms.
var BoundBy = checkResultEvent

// ProofOf is the type of proof in receipts of a rail.
var ProofOf = proofOf
