package main

import "runtime/debug"

const (
	// uncollected is how much garbage may gather. A bundle leaves about 200 KB of
	// it and little that lives, so that the collector, left to itself, would run
	// for every few dozens of bundles.
	uncollected = 36 << 20
	// lives is what a run has in memory beside what is kept of each receipt.
	lives = 9 << 20
	// kept is for the chains.
	kept = 72
	// plenty is where the collector, however much garbage there is, runs more
	// often, as among bundles of many megabytes.
	plenty = 256 << 20
)

// pacer has the collector run when a certain garbage has gathered, however much
// is kept for the chains. Its own measure is a share of what lives: with few
// receipts that is too little, and with a million it would let as much lie about
// as they take.
type pacer struct{ most int64 } // bytes that whoever started the program allows

func newPacer() pacer { return pacer{debug.SetMemoryLimit(-1)} }

func (p pacer) set(bundles int) {
	debug.SetGCPercent(max(10, 100*uncollected/(lives+kept*bundles)))
	debug.SetMemoryLimit(min(p.most, plenty+2*kept*int64(bundles)))
}
