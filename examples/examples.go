// Package examples holds small real repositories that the demo has checked.
package examples

import "embed"

// Wordstat is a word-statistics tool in shell and awk; ./check.sh runs its tests.
//
//go:embed wordstat
var Wordstat embed.FS

// Jobs holds requests of the job types on text: jobs/<name>.json.
//
//go:embed jobs
var Jobs embed.FS
