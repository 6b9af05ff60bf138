package main

import "runtime/debug"

const (
	// maxGarbage is how much garbage may accumulate. A bundle leaves about 200 KB
	// of garbage and little live memory, so that the collector by itself would run
	// after every few dozen bundles.
	maxGarbage = 36 << 20
	// liveMemory is the live memory of a run, besides that of each receipt.
	liveMemory = 9 << 20
	// receiptMemory is the memory for a receipt in its chain.
	receiptMemory = 72
	// largeHeap is the heap size above which the collector runs more often, whatever
	// the garbage, as for bundles of many megabytes.
	largeHeap = 256 << 20
)

// pacer makes the collector run when a fixed amount of garbage has accumulated,
// however much is kept for the chains. The collector's own measure is a share of
// the live memory: with few receipts that is too little garbage, and with a million
// it would be as much as they need.
type pacer struct{ most int64 } // the memory limit set by the user

func newPacer() pacer { return pacer{debug.SetMemoryLimit(-1)} }

func (p pacer) set(bundles int) {
	debug.SetGCPercent(max(10, 100*maxGarbage/(liveMemory+receiptMemory*bundles)))
	debug.SetMemoryLimit(min(p.most, largeHeap+2*receiptMemory*int64(bundles)))
}
