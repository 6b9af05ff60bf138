package schemas

import (
	"fmt"
	"reflect"

	"github.com/lightwork-market/lightwork/hashing"
)

// comparableResult is a result that can be compared with those of other providers.
// agreement returns the part that must be equal. stdout adds the standard output,
// which only sandbox jobs have.
type comparableResult interface{ agreement(stdout bool) any }

// Agrees reports whether results of the job type have an agreement hash, which
// compares the results of several providers.
func (s *Schema) Agrees() bool {
	_, ok := reflect.New(s.result).Interface().(comparableResult)
	return ok
}

// AgreementHash hashes the part of a result that honest providers of one job have in
// common although their times and hosts differ. It returns [ErrNoAgreement] if the
// job type has no such part.
func (r *Request) AgreementHash(result *Result) (hashing.Digest, error) {
	return result.agreementHash(r.comparesStdout())
}

// AgreementHashes returns every hash that AgreementHash can give the result. It is
// for somebody who cannot read the request, which decides whether standard output
// counts. It returns [ErrNoAgreement] if results of the job type cannot be compared.
func (r *Result) AgreementHashes() ([]hashing.Digest, error) {
	without, err := r.agreementHash(false)
	if err != nil || r.SchemaID != SandboxRun {
		return []hashing.Digest{without}, err
	}
	with, err := r.agreementHash(true)
	return []hashing.Digest{without, with}, err
}

func (r *Result) agreementHash(stdout bool) (hashing.Digest, error) {
	v, ok := r.Value.(comparableResult)
	if !ok {
		return hashing.Digest{}, fmt.Errorf("%s: %w", r.SchemaID, ErrNoAgreement)
	}
	return hashing.SumValue(v.agreement(stdout))
}

// Compared says, for people, what results of this request must have in common to
// agree, and in what they may differ; both are "" if they cannot be compared.
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
