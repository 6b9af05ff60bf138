package config_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/receipts"
)

// start is a configuration that is complete without a retention.
const start = "version: 1\nrelays: [ws://127.0.0.1:7447]\n"

// TestRetention: what the file leaves out has a default that holds the dispute window,
// and what would go within it is refused where it stands.
func TestRetention(t *testing.T) {
	const day = 24 * 3_600_000
	for text, want := range map[string]receipts.Retention{
		"": {DisputeMs: 7 * day, ResultsMs: 90 * day, ArtifactsMs: 7 * day, TrajectoriesMs: 90 * day, JournalsMs: 30 * day, BlobsMs: 7 * day, EventsMs: 30 * day},
		"retention: {dispute_window: 45d, results: forever}\n": {
			DisputeMs: 45 * day, ArtifactsMs: 45 * day, TrajectoriesMs: 90 * day, JournalsMs: 45 * day, BlobsMs: 45 * day, EventsMs: 45 * day,
		},
		"retention: {dispute_window: 1h30m, artifacts: 36h, blobs: 2d}\n": {
			DisputeMs: 5_400_000, ResultsMs: 90 * day, ArtifactsMs: day * 3 / 2, TrajectoriesMs: 90 * day, JournalsMs: 30 * day, BlobsMs: 2 * day, EventsMs: 30 * day,
		},
	} {
		c, err := config.Parse([]byte(start+text), "lightwork.yaml")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Retention.Kept(); got != want || got.Validate() != nil {
			t.Errorf("%q: %+v (%v), want %+v", text, got, got.Validate(), want)
		}
	}

	for text, want := range map[string]string{
		"retention: {dispute_window: 10d, artifacts: 9d}\n":  "retention.artifacts: 9d is shorter than the dispute window, 10d",
		"retention: {blobs: 1h}\n":                           "retention.blobs: 1h0m0s is shorter than the dispute window, 7d",
		"retention: {dispute_window: forever}\n":             "retention.dispute_window: must have an end",
		"retention: {results: 0}\n":                          "must be a time such as 36h or 30d",
		"retention: {results: -1d}\n":                        "must be a time such as 36h or 30d",
		"retention: {results: 1us}\n":                        "must be a time such as 36h or 30d",
		"retention: {results: 40000d}\n":                     "must be a time such as 36h or 30d",
		"retention: {results: 99999999999999999999d}\n":      "must be a time such as 36h or 30d",
		"retention: {results: 1.5d}\n":                       "must be a time such as 36h or 30d",
		"retention: {receipts: 1d}\n":                        "receipts",
		"retention: {events: 2d, journals: 3d, results: 1d}": "retention.journals: 3d is shorter",
	} {
		_, err := config.Parse([]byte(start+text), "lightwork.yaml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
