package main

import "runtime/debug"

const (
	// uncollected is how much garbage may accumulate. A bundle leaves about 200 KB
	// of garbage and little live memory, so that the collector by itself would run
	// after every few dozen bundles.
	uncollected = 36 << 20
	// lives is the live memory of a run, besides that of each receipt.
	lives = 9 << 20
	// kept is the memory for a receipt in its chain.
	kept = 72
	// plenty is the heap size above which the collector runs more often, whatever
	// the garbage, as for bundles of many megabytes.
	plenty = 256 << 20
)

// pacer makes the collector run when a fixed amount of garbage has accumulated,
// however much is kept for the chains. The collector's own measure is a share of
// the live memory: with few receipts that is too little garbage, and with a million
// it would be as much as they need.
type pacer struct{ most int64 } // the memory limit set by the user

func newPacer() pacer { return pacer{debug.SetMemoryLimit(-1)} }

func (p pacer) set(bundles int) {
	debug.SetGCPercent(max(10, 100*uncollected/(lives+kept*bundles)))
	debug.SetMemoryLimit(min(p.most, plenty+2*kept*int64(bundles)))
}
