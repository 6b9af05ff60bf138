package message

import (
	"math"
	"time"
)

// Law is one of the evidence laws.
type Law string

// The laws (YEX-2).
const (
	LawFabrication   Law = "R0"  // nothing is fabricated
	LawAttribution   Law = "R1"  // every claim names its source
	LawConfidence    Law = "R2"  // confidence is stated
	LawContradiction Law = "R3"  // contradictions are shown, not averaged
	LawTime          Law = "R4"  // every figure has its time
	LawGeography     Law = "R5"  // every figure has its place
	LawMethod        Law = "R6"  // every figure has its method
	LawGap           Law = "R7"  // missing data is reported as missing
	LawVersions      Law = "R8"  // versions of a figure are kept apart
	LawProvenance    Law = "R9"  // the making of everything is recorded
	LawLicence       Law = "R10" // licences are kept
	LawNumeric       Law = "R11" // numbers are passed on unchanged
	LawCorrection    Law = "R12" // corrections are public
)

// laws returns all thirteen in their order.
func laws() []Law {
	return []Law{
		LawFabrication, LawAttribution, LawConfidence, LawContradiction, LawTime, LawGeography, LawMethod, LawGap,
		LawVersions, LawProvenance, LawLicence, LawNumeric, LawCorrection,
	}
}

// Severity is how bad a violation is.
type Severity string

// The severities.
const (
	Critical Severity = "critical"
	Major    Severity = "major"
	Minor    Severity = "minor"
)

// Severity of a violation: fabricated evidence is critical, evidence that cannot be
// traced is major, all else is minor.
func (l Law) Severity() Severity {
	switch l {
	case LawFabrication:
		return Critical
	case LawAttribution, LawContradiction, LawProvenance, LawNumeric:
		return Major
	}
	return Minor
}

// band is a confidence as a word (YEX-3).
type band string

// The bands: high from 90, medium from 70, low below.
const (
	high   band = "High"
	medium band = "Medium"
	low    band = "Low"
)

// bandOf returns the band of a confidence of 0 to 100.
func bandOf(confidence int) band {
	switch {
	case confidence >= 90:
		return high
	case confidence >= 70:
		return medium
	}
	return low
}

// verdict is a judgement on a message's citations (YEX-5).
type verdict string

// The verdicts: pass if at least 95 % of the claims are cited, passWarn from 85 %,
// fail below.
const (
	pass     verdict = "PASS"
	passWarn verdict = "PASS_WARN"
	fail     verdict = "FAIL"
)

// judge returns the verdict for a citation coverage in percent.
func judge(coverage float64) verdict {
	switch {
	case coverage >= 95:
		return pass
	case coverage >= 85:
		return passWarn
	}
	return fail
}

// contradict reports whether two values of one thing differ by more than 10 %
// of the larger.
func contradict(a, b float64) bool {
	return math.Abs(a-b) > 0.1*math.Max(math.Abs(a), math.Abs(b))
}

// violation is an entry of the violation log (YEX-6).
type violation struct {
	Timestamp time.Time `json:"timestamp"`
	AgentID   string    `json:"agentId"` // the agent at fault
	Law       Law       `json:"lawViolated"`
	Severity  Severity  `json:"severity"`
	Action    string    `json:"action"` // blocked, flagged or corrected
}

// actionBlocked says that the message was not passed on.
const actionBlocked = "blocked"
