package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/receipts"
)

// worker has the reusable memory of one goroutine that verifies groups of bundles.
type worker struct {
	batch receipts.Batch // empty
	room  room           // holds the batch's bundles
}

// verify verifies a group of bundles. It empties the batch before it grows too
// large, and at the end.
func (w *worker) verify(o options, bundles []fs.DirEntry) []graded {
	list := make([]graded, len(bundles))
	var waiting []int // indexes in list of the bundles in the batch
	settle := func() {
		for k, r := range w.batch.Verify() {
			i := waiting[k]
			list[i] = graded{bundles[i].Name(), r.ExitCode(), r}
		}
		waiting = waiting[:0]
		w.room.empty()
	}

	for i, e := range bundles {
		open := w.room.readArchive
		if e.IsDir() {
			open = readFolder
		}
		bundle, err := open(filepath.Join(o.bundle, e.Name()))
		if err != nil {
			r := receipts.Verify(nil, o.pins) // every claim, none proved
			r.Unusable = err.Error()
			list[i] = graded{e.Name(), r.ExitCode(), r}
			continue
		}
		w.batch.Add(bundle, o.pins)
		waiting = append(waiting, i)
		if w.batch.Full() {
			settle()
		}
	}

	settle()
	return list
}

const (
	// inMemory is the largest archive that is read at once.
	inMemory = 1 << 20
	// piece is enough room for the archives of a group of small jobs.
	piece = 4 << 20
)

// room is memory for archives, which are read one after the other. Before it is
// reused, the earlier bundles must no longer be needed. The zero value is ready for
// use.
type room []byte

// empty makes the room of the earlier archives available again.
func (r *room) empty() { *r = (*r)[:0] }

// take returns room for n bytes, at most inMemory. If too little is left, it starts
// a new piece; bundles keep the old one alive.
func (r *room) take(n int) []byte {
	if cap(*r)-len(*r) < n {
		*r = make(room, 0, piece)
	}
	from := len(*r)
	*r = (*r)[:from+n]
	return (*r)[from : from+n : from+n]
}

// readArchive reads a bundle, which may use memory of the room.
func (r *room) readArchive(name string) (*receipts.Bundle, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > inMemory {
		return receipts.ReadTar(f, receipts.Limits{})
	}
	archive := r.take(int(info.Size()))
	if n, err := io.ReadFull(f, archive); err != nil { // it has changed, or cannot be read
		return receipts.ReadTar(io.MultiReader(bytes.NewReader(archive[:n]), f), receipts.Limits{})
	}
	return receipts.ParseTar(archive, receipts.Limits{})
}
