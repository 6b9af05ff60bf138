package schemas

import (
	"fmt"
	"reflect"

	"github.com/lightwork-market/lightwork/hashing"
)

// agreer is a result that can be compared with those of other providers. Only a
// sandbox job has a standard output that could count.
type agreer interface{ agreement(stdout bool) any }

// Agrees reports whether results of the job type have an agreement hash, so
// that those of several providers can be compared.
func (s *Schema) Agrees() bool {
	_, ok := reflect.New(s.result).Interface().(agreer)
	return ok
}

// AgreementHash is the hash of the schema's agreement projection: what honest
// providers of one job have in common although their times and hosts differ.
// It returns [ErrNoAgreement] where the job type has none.
func (r *Request) AgreementHash(result *Result) (hashing.Digest, error) {
	return result.agreementHash(r.comparesStdout())
}

// AgreementHashes are those that the result can have, for somebody who cannot
// read the request, which says what counts. It returns [ErrNoAgreement] where the
// job type has none.
func (r *Result) AgreementHashes() ([]hashing.Digest, error) {
	least, err := r.agreementHash(false)
	if err != nil || r.SchemaID != SandboxRun {
		return []hashing.Digest{least}, err
	}
	with, err := r.agreementHash(true)
	return []hashing.Digest{least, with}, err
}

func (r *Result) agreementHash(stdout bool) (hashing.Digest, error) {
	v, ok := r.Value.(agreer)
	if !ok {
		return hashing.Digest{}, fmt.Errorf("%s: %w", r.SchemaID, ErrNoAgreement)
	}
	return hashing.SumValue(v.agreement(stdout))
}

// Compared says, for people, what results of this request have to share to agree,
// and what they need not; both are "" where they cannot be compared.
func (r *Request) Compared() (what, apart string) {
	s, ok := Lookup(string(r.SchemaID))
	if !ok || !s.Agrees() {
		return "", ""
	}
	if r.comparesStdout() {
		return s.Agreement + ", hashes of what each command prints to standard output", "what the commands print to standard error"
	}
	return s.Agreement, s.Apart
}

func (r *Request) comparesStdout() bool {
	run, ok := r.Value.(*SandboxRunRequest)
	return ok && run.Verification.CompareStdout
}
