// Package examples holds what the demo orders, and a tool that does a job.
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

// Embed is a tool in WebAssembly that does oa.embedding.v1.
//
//go:embed wasm/embed/module.wasm wasm/embed/tool.wit
var Embed embed.FS
