package hashing

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LegacyCanonical returns the form that OpenAgents hashes (K-26): keys sorted
// by UTF-8 bytes, and numbers as Rust's serde_json writes them, so integers up
// to 64 bits stay as they are and a float keeps its ".0". It only verifies bundles
// made there and is never used for our own documents. The strict decoder checks the
// document, except for the bound on integers.
func LegacyCanonical(doc []byte) ([]byte, error) {
	e := engine{src: source{buf: doc}, form: formLegacy, out: make([]byte, 0, len(doc))}
	if err := e.document(); err != nil {
		return nil, err
	}
	return e.out, nil
}

// A LegacyEvent is one event of an OpenAgents run history.
type LegacyEvent struct {
	Seq            uint64          `json:"seq"`
	EventType      string          `json:"event_type"`
	Payload        json.RawMessage `json:"payload"`
	IdempotencyKey *string         `json:"idempotency_key"`
	RecordedAt     time.Time       `json:"recorded_at"`
}

// LegacyTrajectory returns the trajectory_hash that OpenAgents records for a run
// history. Our own trajectory_hash differs: it is the hash of the REPLAY lines.
func LegacyTrajectory(events []LegacyEvent) (Digest, error) {
	type event struct {
		LegacyEvent
		RecordedAt string `json:"recorded_at"` // hides the embedded one
	}
	rows := make([]event, 0, len(events))
	for _, ev := range events {
		rows = append(rows, event{ev, legacyTime(ev.RecordedAt)})
	}
	doc, err := json.Marshal(rows)
	if err != nil {
		return Digest{}, fmt.Errorf("encode history: %w", err)
	}
	text, err := LegacyCanonical(doc)
	if err != nil {
		return Digest{}, err
	}
	return Bytes(text), nil
}

// legacyTime writes an instant as Rust's chrono does: "+00:00" for UTC, and no
// fraction or one of 3, 6 or 9 digits.
func legacyTime(t time.Time) string {
	ns, layout := t.Nanosecond(), "2006-01-02T15:04:05"
	switch {
	case ns == 0:
	case ns%1e6 == 0:
		layout += ".000"
	case ns%1e3 == 0:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	return t.UTC().Format(layout) + "+00:00"
}

// appendLegacyNumber appends a number as serde_json writes it after parsing.
func appendLegacyNumber(dst, token []byte, integer bool) ([]byte, error) {
	text := string(token)
	if integer && text != "-0" {
		_, errU := strconv.ParseUint(text, 10, 64)
		_, errI := strconv.ParseInt(text, 10, 64)
		if errU == nil || errI == nil {
			return append(dst, token...), nil
		}
	}

	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return dst, &SyntaxError{Reason: ReasonRange}
	}
	return appendLegacyFloat(dst, v), nil
}

// appendLegacyFloat appends a finite double in the shortest form of the ryu
// crate's pretty printer: plain while the decimal point is within 16 places
// left or 5 right of the digits, otherwise with a bare exponent (1e30, 1e-7).
func appendLegacyFloat(dst []byte, v float64) []byte {
	if math.Signbit(v) {
		dst, v = append(dst, '-'), -v
	}
	if v == 0 {
		return append(dst, "0.0"...)
	}
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")

	digits := strings.Replace(mantissa, ".", "", 1)
	exponent, _ := strconv.Atoi(exp) // written by strconv one line above
	point := exponent + 1            // digits left of the decimal point
	switch {
	case point > 16 || point <= -5:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(exponent), 10)
	case point >= len(digits):
		dst = append(dst, digits...)
		dst = append(dst, slices.Repeat([]byte{'0'}, point-len(digits))...)
		return append(dst, ".0"...)
	case point > 0:
		dst = append(append(dst, digits[:point]...), '.')
		return append(dst, digits[point:]...)
	}

	dst = append(dst, "0."...)
	dst = append(dst, slices.Repeat([]byte{'0'}, -point)...)
	return append(dst, digits...)
}
