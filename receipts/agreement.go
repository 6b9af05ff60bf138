package receipts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

// TagCommit is the tag of a sealed result event that commits to its agreement
// hash. The value is that of [Commit].
const TagCommit = "agreement_commit"

// StatusReveal is the status of the 7000 event that reveals a commit.
const StatusReveal = "reveal"

// seatsMax is how many providers one panel may have: what a request's
// verification.redundancy allows.
const seatsMax = 16

// CommitNonce is the secret in a commit. Without it, others could find the agreement
// hash before the reveal by guessing.
type CommitNonce [32]byte

// Commit is sha256(provider's x-only key || agreement hash || nonce), each of 32 raw
// bytes. The key is included so that nobody can copy another provider's commit: only
// that provider can reveal it.
func Commit(provider string, agreement hashing.Digest, nonce CommitNonce) (hashing.Digest, error) {
	key, err := hex.DecodeString(provider)
	if err != nil || len(key) != 32 {
		return hashing.Digest{}, fmt.Errorf("%w: commit: the key is not 64 hex digits", ErrInvalid)
	}
	return hashing.Digest(sha256.Sum256(slices.Concat(key, agreement[:], nonce[:]))), nil
}

// Reveal is the content of the event that reveals a [Commit].
type Reveal struct {
	Version       int            `json:"version"`
	RequestID     string         `json:"request_id"`
	AgreementHash hashing.Digest `json:"agreement_hash"`
	Nonce         string         `json:"nonce"` // 64 hex digits
}

// Canonical validates the reveal and returns its canonical JSON.
func (r Reveal) Canonical() ([]byte, error) {
	c := checks{document: "reveal"}
	c.version(r.Version)
	c.id("request_id", r.RequestID)
	c.digest("agreement_hash", r.AgreementHash)
	c.that(isHex(r.Nonce, 64), "nonce is not 64 lower-case hex digits")
	if c.failed != nil {
		return nil, c.failed
	}
	return hashing.CanonicalValue(r)
}

// ParseReveal reads a reveal, which must be its own canonical form. Errors wrap
// ErrInvalid.
func ParseReveal(doc []byte) (Reveal, error) { return parseDocument[Reveal]("reveal", doc) }

// Opens checks that the reveal is what the provider committed to in a result event
// for the request. Errors wrap [ErrInvalid] or [ErrMismatch].
func (r Reveal) Opens(commit hashing.Digest, provider, requestID string) error {
	var nonce CommitNonce
	if _, err := hex.Decode(nonce[:], []byte(r.Nonce)); err != nil {
		return fmt.Errorf("%w: reveal: nonce", ErrInvalid)
	}
	got, err := Commit(provider, r.AgreementHash, nonce)
	if err != nil {
		return err
	}

	return firstMismatch(
		match("request_id", r.RequestID, requestID),
		match(TagCommit, got, commit),
	)
}

// Closing is the content of the event that ends the commits of a panel and asks for
// the reveals. A provider reveals once its own result is listed: its commit then
// counts, and nobody can wait for its reveal to commit the same.
type Closing struct {
	Version int           `json:"version"`
	Results []PanelResult `json:"results"`
}

// PanelResult names one result event whose commit counts.
type PanelResult struct {
	Provider  string `json:"provider"`
	RequestID string `json:"request_id"`
	ResultID  string `json:"result_id"`
}

// Canonical validates the closing and returns its canonical JSON; results are in
// the order of their requests' ids.
func (c Closing) Canonical() ([]byte, error) {
	k := checks{document: "closing"}
	k.version(c.Version)
	k.that(len(c.Results) >= 1 && len(c.Results) <= seatsMax, "results are none or too many")

	for i, r := range c.Results {
		k.err(checkKey("provider", r.Provider))
		k.id("request_id", r.RequestID)
		k.id("result_id", r.ResultID)
		k.that(i == 0 || strings.Compare(c.Results[i-1].RequestID, r.RequestID) < 0, "results are not in order, or twice")
	}

	if k.failed != nil {
		return nil, k.failed
	}
	return hashing.CanonicalValue(c)
}

// ParseClosing reads a closing, which must be its own canonical form. Errors
// wrap ErrInvalid.
func ParseClosing(doc []byte) (Closing, error) { return parseDocument[Closing]("closing", doc) }

// Has reports whether the closing lists the result, so that its commit counts.
func (c Closing) Has(r PanelResult) bool { return slices.Contains(c.Results, r) }

// Lists reports whether the closing lists any result of the request.
func (c Closing) Lists(requestID string) bool {
	return slices.ContainsFunc(c.Results, func(r PanelResult) bool { return r.RequestID == requestID })
}
