package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lightwork-market/lightwork/receipts"
)

const (
	// groupSize is how many names of a folder are read at a time, so that a folder of
	// any size needs the same memory. Reports are printed in such groups, sorted by
	// name.
	groupSize = 4096
	// batchSize is how many bundles one processor takes at a time: enough to make
	// their signatures cheap, few enough to give all processors some.
	batchSize = 128
)

// tally sums up the results of a folder.
type tally struct {
	bundles int
	exits   [4]int // bundles by exit code
	skipped int    // entries that are neither a bundle's folder nor an archive
	chains  receipts.Chains
}

// verifyAll verifies every bundle in a folder.
func verifyAll(o options, stdout, stderr io.Writer) int {
	dir, err := os.Open(o.bundle)
	if err == nil {
		if _, none := os.Stat(filepath.Join(o.bundle, receipts.FileReceipt)); none == nil {
			err = fmt.Errorf("%s is a bundle itself: leave out --all", o.bundle)
		}
	}

	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: %s\n%s", printable(err.Error()), allHint(err))
		return receipts.ExitUnusable
	}
	defer dir.Close()

	line := newProgress(stderr)
	var t tally
	pace := newPacer()
	for {
		pace.set(t.bundles)
		entries, err := dir.ReadDir(groupSize)
		if err == nil {
			err = t.verify(o, entries, stdout, line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line.clear()
			fmt.Fprintf(stderr, "lightwork-verify: %s\n%s", printable(err.Error()), allHint(err))
			return receipts.ExitUnusable
		}
	}

	line.clear()
	if t.bundles == 0 {
		fmt.Fprintf(stderr, "lightwork-verify: %s contains no bundle: neither a folder nor a .tar file\n%s", printable(o.bundle), makeHint)
		return receipts.ExitUnusable
	}
	return t.finish(o, stdout, stderr)
}

// makeHint says how to make a folder of bundles.
const makeHint = "  hint: name a folder that has a folder or a .tar file for each bundle, as written by lightwork receipts export\n"

// allHint is the next step if the folder cannot be read.
func allHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return makeHint
	}
	return ""
}

// verify verifies one group on all processors and prints the reports sorted by
// name.
func (t *tally) verify(o options, entries []fs.DirEntry, stdout io.Writer, line *progress) error {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })

	bundles := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() && !couldBeBundle(filepath.Join(o.bundle, e.Name())) || !e.IsDir() && !(e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".tar")) {
			t.skipped++
			continue
		}
		bundles = append(bundles, e)
	}

	runs := slices.Collect(slices.Chunk(bundles, batchSize))
	reports := make([]chan []graded, len(runs))
	for i := range reports {
		reports[i] = make(chan []graded, 1)
	}
	jobs := make(chan int)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(jobs) // ends the workers

	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var w worker
			for i := range jobs {
				reports[i] <- w.verify(o, runs[i])
			}
		})
	}

	// Few more are started than finished, so that few reports wait to be printed.
	out := bufio.NewWriter(stdout)
	started, ahead := 0, 2*runtime.GOMAXPROCS(0)
	for i := range reports {
		for ; started < len(reports) && started < i+ahead; started++ {
			jobs <- started
		}
		list := <-reports[i]
		line.clear()

		for _, g := range list {
			t.count(g)
			if err := printOne(out, g, o.json); err != nil {
				return err
			}
		}

		if err := out.Flush(); err != nil {
			return err
		}
		line.show(t)
	}

	return nil
}

// couldBeBundle reports whether a folder has any file of a bundle: then it is an
// unusable bundle if it is damaged, else it is skipped. A folder that cannot be
// read counts as a bundle, so that it is reported.
func couldBeBundle(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer f.Close()

	for {
		names, err := f.Readdirnames(groupSize)
		for _, name := range names {
			if receipts.IsBundleFile(name) {
				return true
			}
		}
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
	}
}

func (t *tally) count(g graded) {
	t.bundles++
	t.exits[g.ExitCode]++
	t.chains.Add(g.Report)
}

// printOne prints one line for a bundle: result, name and reason.
func printOne(w io.Writer, g graded, asJSON bool) error {
	if asJSON {
		return writeJSON(w, g, "")
	}
	what := map[int]string{
		receipts.ExitProved: "proved", receipts.ExitFailed: "failed", receipts.ExitUnusable: "unusable", receipts.ExitNotProvable: "not provable",
	}[g.ExitCode]
	line := fmt.Sprintf("%-12s  %s", what, g.Bundle)
	if g.Unusable != "" {
		line += "  " + g.Unusable
	}

	for _, c := range g.Claims {
		// The first claim that determines the exit code is the reason.
		if g.Unusable == "" && (c.State == receipts.Failed || g.ExitCode == receipts.ExitNotProvable && c.Required && c.State != receipts.Proved) {
			line += fmt.Sprintf("  %s: %s", c.Name, c.Reason)
			break
		}
	}

	_, err := fmt.Fprintln(w, strings.ReplaceAll(printable(line), "\n", " "))
	return err
}

// finish prints the chains and the totals, and returns the exit code.
func (t *tally) finish(o options, stdout, stderr io.Writer) int {
	chains := t.chains.Reports(o.pins.Keys, o.pins.Also...)
	faults, gaps := 0, 0
	for _, c := range chains {
		faults, gaps = faults+len(c.Faults), gaps+len(c.Missing)
	}
	code := t.exitCode(faults > 0, gaps > 0 && slices.Contains(o.pins.Required, receipts.ClaimChain))
	err := t.print(stdout, chains, code, o.json)
	if err != nil {
		fmt.Fprintf(stderr, "lightwork-verify: write report: %v\n", err)
		return receipts.ExitUnusable
	}
	return code
}

func (t *tally) exitCode(fault, gap bool) int {
	switch {
	case fault || t.exits[receipts.ExitFailed] > 0:
		return receipts.ExitFailed
	case t.exits[receipts.ExitUnusable] > 0:
		return receipts.ExitUnusable
	case gap || t.exits[receipts.ExitNotProvable] > 0:
		return receipts.ExitNotProvable
	}
	return receipts.ExitProved
}

func (t *tally) print(w io.Writer, chains []receipts.ChainReport, code int, asJSON bool) error {
	if asJSON {
		return writeJSON(w, struct {
			ExitCode int                    `json:"exit_code"`
			Bundles  int                    `json:"bundles"`
			Skipped  int                    `json:"skipped"`
			Chains   []receipts.ChainReport `json:"chains"`
		}{code, t.bundles, t.skipped, chains}, "")
	}

	var b strings.Builder
	for _, c := range chains {
		printChain(&b, c)
	}
	fmt.Fprintf(&b, "\n%s: %d proved, %d failed, %d not provable, %d unusable",
		count(t.bundles, "bundle"), t.exits[receipts.ExitProved], t.exits[receipts.ExitFailed], t.exits[receipts.ExitNotProvable], t.exits[receipts.ExitUnusable])
	if t.skipped > 0 {
		fmt.Fprintf(&b, "; not looked at: %s", count(t.skipped, "other file"))
	}
	fmt.Fprintf(&b, " (exit %d)\n", code)
	_, err := io.WriteString(w, printable(b.String()))
	return err
}

// count formats a number of things: "1 bundle", "2 bundles".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// maxPrinted bounds the gaps and faults of a chain that are printed; JSON has all.
const maxPrinted = 10

func printChain(b *strings.Builder, c receipts.ChainReport) {
	fmt.Fprintf(b, "\nchain of %s: %s up to number %d\n", c.ProviderID, count(c.Receipts, "receipt"), c.Last)
	for _, key := range c.Before {
		fmt.Fprintf(b, "  before it     %s, the same provider's earlier key\n", key)
	}
	if len(c.Missing) == 0 && len(c.Faults) == 0 {
		b.WriteString("  complete; that there is no second chain is not shown\n")
	}
	if len(c.Missing) > 0 {
		named := make([]string, 0, maxPrinted)
		for _, span := range c.Missing[:min(maxPrinted, len(c.Missing))] {
			named = append(named, span.String())
		}
		fmt.Fprintf(b, "  not provable  missing %s%s\n", strings.Join(named, ", "), andMore(len(c.Missing)))
	}

	for _, fault := range c.Faults[:min(maxPrinted, len(c.Faults))] {
		fmt.Fprintf(b, "  failed        %s\n", fault)
	}
	if len(c.Faults) > maxPrinted {
		fmt.Fprintf(b, "  failed       %s\n", andMore(len(c.Faults)))
	}
}

func andMore(n int) string {
	if n <= maxPrinted {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-maxPrinted)
}
