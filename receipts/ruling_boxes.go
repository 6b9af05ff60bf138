package receipts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

func (j *judge) checkBoxes() error {
	for _, tag := range j.result.Tags {
		if len(tag) < 3 || tag[0] != "blob" || tag[1] != RoleSealed {
			continue
		}
		d, err := hashing.ParseDigest(tag[2])
		if err != nil {
			return fmt.Errorf("%w: a box of the event: %w", ErrInvalid, err)
		}
		box, ok := j.d.Boxes[d.Hex()]
		if !ok {
			return lacking("box " + d.Hex() + " is not there")
		}
		if hashing.Bytes(box) != d {
			return &MismatchError{"box", hashing.Bytes(box).String(), d.String()}
		}

		j.boxes = append(j.boxes, box)
	}

	if len(j.boxes) == 0 {
		return lacking("the result event lists no box")
	}
	return nil
}

// open is the last step, and the verdict.
func (j *judge) open() {
	const what = "what is in them is what it committed to"
	seal, contents, err := j.unseal()
	j.find(what, err)
	if err != nil {
		j.ruling.Verdict, j.ruling.Reason = VerdictFalseBox, err.Error()
		return
	}
	err = j.answers(seal, contents)
	j.find("it is a result for the request", err)

	switch {
	case err == nil:
		j.ruling.Verdict, j.ruling.Reason = VerdictDelivered, "the boxes open with the payment's secret, and hold a result for the request"
	case errors.As(err, new(lacking)):
		j.ruling.Reason = err.Error()
	default:
		j.ruling.Verdict, j.ruling.Reason = VerdictNoAnswer, err.Error()
	}
}

func (j *judge) unseal() (seal Seal, contents [][]byte, err error) {
	commitment, err := CommitmentOf(j.result)
	if err != nil {
		return Seal{}, nil, fmt.Errorf("%w: %w", ErrFalseBox, err)
	}
	key, err := NewSealKey(j.preim, j.hash, j.request.ID, commitment)
	if err != nil {
		return Seal{}, nil, err
	}
	seal, _, contents, err = key.OpenAll(j.boxes)
	return seal, contents, err
}

// answers holds the result against its schema, the seal and the request.
func (j *judge) answers(seal Seal, contents [][]byte) error {
	i := slices.IndexFunc(seal.Contents, func(c SealedContent) bool { return c.Role == RoleResult })
	typed, err := RequestOf(j.request.Tags)
	if err != nil {
		return lacking(err.Error())
	}
	schema, known := schemas.Lookup(typed.SchemaID)
	if !known {
		return lacking("the schema " + quoted(typed.SchemaID) + " is not known here")
	}
	asked, err := schema.ParseRequest(typed.Input)
	if err != nil {
		return lacking("the request breaks its schema")
	}
	result, err := schema.ParseResult(contents[i])
	if err != nil {
		return escaped(err)
	}
	if result.OutputHash != seal.OutputHash {
		return &MismatchError{"output_hash", result.OutputHash.String(), seal.OutputHash.String()}
	}

	if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
		for _, a := range run.Artifacts {
			if !slices.ContainsFunc(seal.Contents, func(c SealedContent) bool { return c.Digest == a.SHA256 && c.Size == a.SizeBytes }) {
				return fmt.Errorf("%w: artifact %s is in no box", ErrMismatch, quoted(a.Path))
			}
		}
	}

	return escaped(answered(asked, result))
}
