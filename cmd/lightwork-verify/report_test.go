package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/receipts"
)

// TestChainOfManyFaults: a text names ten gaps and ten faults of a chain and counts the
// others, so that a provider cannot scroll the verdict away.
func TestChainOfManyFaults(t *testing.T) {
	for n, rest := range map[int]string{0: "", 1: "", maxPrinted: "", maxPrinted + 1: " and 1 more", maxPrinted + 90: " and 90 more"} {
		c := receipts.ChainReport{ProviderID: "p", Receipts: 2, Last: 500}
		for i := range n {
			c.Missing = append(c.Missing, receipts.Span{From: int64(3 * i), To: int64(3*i + 1)})
			c.Faults = append(c.Faults, fmt.Sprintf("fault %d.", i))
		}
		var b strings.Builder
		printChain(&b, c)
		text := b.String()
		if faults := strings.Count(text, "fault "); faults != min(n, maxPrinted) {
			t.Errorf("%d of %d faults are named in\n%s", faults, n, text)
		}
		if named := strings.Count(text, " more\n"); named != map[bool]int{true: 2}[rest != ""] || rest != "" && strings.Count(text, rest+"\n") != 2 {
			t.Errorf("%d gaps and faults end in\n%s", n, text)
		}
		if complete := strings.Contains(text, "complete"); complete != (n == 0) {
			t.Errorf("%d gaps and faults: complete %v", n, complete)
		}
	}
}

// TestProgress: on a terminal one line is written over itself, not too often, and taken
// away before the report; elsewhere there is none.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	var now tally
	now.bundles, now.exits[receipts.ExitFailed] = 7, 2

	p := newProgress(&out)
	p.show(&now)
	p.clear()
	if out.Len() != 0 {
		t.Errorf("in a file stands %q", &out)
	}

	p.w = &out
	p.show(&now)
	first := out.String()
	if !strings.HasPrefix(first, "\r\x1b[K7 verified, 2 failed, ") || strings.Contains(first, "\n") {
		t.Errorf("shown as %q", first)
	}
	p.show(&now)
	if out.String() != first {
		t.Error("a line was written over at once")
	}
	p.last = p.last.Add(-2 * minInterval)
	p.show(&now)
	if out.Len() <= len(first) {
		t.Error("a line stands for good")
	}

	out.Reset()
	p.clear()
	p.clear()
	if out.String() != "\r\x1b[K" {
		t.Errorf("taken away by %q", &out)
	}
}

// TestReadArchive: whatever an archive is on the disk, what is read of it is what it
// holds, and nothing that is none is waited for.
func TestReadArchive(t *testing.T) {
	files := fstest.MapFS{}
	for name, data := range vectorFiles("valid") {
		files[name] = &fstest.MapFile{Data: data}
	}
	bundle, err := receipts.ReadBundle(files, receipts.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := bundle.WriteTar(&small); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	var r room
	for name, data := range map[string][]byte{
		"small.tar": small.Bytes(),
		"large.tar": append(bytes.Clone(small.Bytes()), make([]byte, 2*inMemory)...), // zeros after the end of the archive
	} {
		got, err := r.readArchive(write(name, data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := receipts.Verify(bundle, receipts.Pins{}); !reflect.DeepEqual(receipts.Verify(got, receipts.Pins{}), want) {
			t.Errorf("%s: another report than of the folder", name)
		}
	}

	for name, data := range map[string][]byte{"cut.tar": small.Bytes()[:small.Len()/2], "empty.tar": nil, "text.tar": []byte("no archive")} {
		if _, err := r.readArchive(write(name, data)); !errors.Is(err, receipts.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.readArchive(filepath.Join(dir, "none.tar")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an archive that is not there: %v", err)
	}
	if _, err := r.readArchive(dir); err == nil {
		t.Error("a folder was read as an archive")
	}
}

// TestReportThatCannotBeWritten: a full disk is no proof.
func TestReportThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for name, data := range vectorFiles("valid") {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()

	for _, args := range [][]string{{dir}, {"--json", dir}, {"--dispute", "--json", dir}} {
		var diagnostics bytes.Buffer
		if code := run(args, nil, full, &diagnostics); code != receipts.ExitUnusable {
			t.Errorf("%v ends with %d, and says %q", args, code, &diagnostics)
		}
	}
}
