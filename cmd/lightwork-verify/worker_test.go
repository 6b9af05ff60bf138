package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/receipts"
)

// What a worker reads goes where bundles before were: each report must be that
// of the bundle alone, whatever came before it and beside it.
func TestWorkerReports(t *testing.T) {
	dir, want := t.TempDir(), map[string]receipts.Report{}
	paths, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		files := fstest.MapFS{}
		for file, data := range vectorFiles(name) {
			files[file] = &fstest.MapFile{Data: data}
		}
		bundle, err := receipts.ReadBundle(files, receipts.Limits{})
		if err != nil {
			continue // there is no archive of it
		}
		var archive bytes.Buffer
		if err := bundle.WriteTar(&archive); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".tar"), archive.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		want[name+".tar"] = receipts.Verify(bundle, receipts.Pins{})
	}
	if len(want) < 2*batchSize {
		t.Fatalf("%d vectors are too few to read one over another", len(want))
	}
	archives, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var w worker
	for run := range slices.Chunk(archives, batchSize) {
		for _, g := range w.verify(options{bundle: dir}, run) {
			if !reflect.DeepEqual(g.Report, want[g.Bundle]) {
				t.Errorf("%s: beside others %+v, alone %+v", g.Bundle, g.Report, want[g.Bundle])
			}
		}
	}
}

func TestRoom(t *testing.T) {
	var r room
	var taken [][]byte
	for i := range 2 * piece / 1000 {
		b := r.take(1000)
		for j := range b {
			b[j] = byte(i)
		}
		taken = append(taken, b)
	}
	for i, b := range taken {
		if len(b) != 1000 || cap(b) != 1000 || bytes.Count(b, []byte{byte(i)}) != 1000 {
			t.Fatalf("what was taken as number %d was given to another too", i)
		}
	}
	r.empty()
	last := taken[len(taken)-1]
	if b := r.take(piece); len(b) != piece || !bytes.Contains(b, last) {
		t.Error("an empty room is not used again")
	}
}
