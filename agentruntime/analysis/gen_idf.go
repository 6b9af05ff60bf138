//go:build ignore

// Gen_idf counts words in the documentation comments of the Go distribution and
// writes idf.txt. Each comment of at least minWords words counts as one text.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
)

const (
	minWords  = 8
	tableSize = 1500
)

func main() {
	texts, count := 0, map[string]int{}
	err := filepath.WalkDir(filepath.Join(runtime.GOROOT(), "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}

		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return nil // some files are broken on purpose
		}

		for _, group := range f.Comments {
			stems := analysis.Stems(group.Text())
			// Skip the licence at the head of every file.
			if len(stems) < minWords || strings.Contains(group.Text(), "Copyright") {
				continue
			}
			texts++
			slices.Sort(stems)
			for _, s := range slices.Compact(stems) {
				count[s]++
			}
		}

		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	write(texts, count)
}

func write(texts int, count map[string]int) {
	var all []string
	for s := range count {
		if strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 {
			all = append(all, s)
		}
	}

	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	all = all[:tableSize]
	slices.Sort(all)
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %.0f\n", s, math.Round(10*math.Log(float64(texts)/float64(count[s]))))
	}
	if err := os.WriteFile("idf.txt", []byte(b.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}
