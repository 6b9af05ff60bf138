package khatru_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/relay/conformance"
)

// TestConformance runs on khatru the suite that our own relay passes. Where
// khatru differs, it says so.
func TestConformance(t *testing.T) {
	start := func(t *testing.T) string {
		_, url := newRelay(t)
		return url
	}
	conformance.Run(t, conformance.Relay{Start: start, Differs: map[string]string{
		"kind too large":            "khatru stores events of any kind",
		"time range":                "eventstore/slicestore leaves out an event whose created_at is since",
		"replace":                   "khatru keeps the old subscription beside the new one",
		"deleted event comes again": "khatru forgets what was deleted; the line says SHOULD",
		"deletion of a deletion":    "khatru deletes the deletion request",
		"expired":                   "khatru takes an event that has expired and removes it later; the line says SHOULD",
		"several keys":              "khatru keeps the last key alone",
		"proof as an event":         "khatru broadcasts it as any ephemeral event",
		"count of several filters":  "khatru counts one of the filters",
	}})
}
