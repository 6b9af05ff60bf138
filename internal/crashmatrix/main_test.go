//go:build lnd

package crashmatrix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/devnet"
)

// What the Makefile says through the environment.
const (
	envAll  = "LIGHTWORK_CRASH_MATRIX" // "all", or points by name; a fixed third if empty
	envLoop = "LIGHTWORK_CRASH_LOOP"   // how many jobs the random loop buys
)

// binDir holds the two real programs, built once.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lightwork-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	const module = "github.com/lightwork-market/lightwork/cmd/"
	if out, err := exec.Command("go", "build", "-o", dir+"/", module+"lightwork", module+"lightwork-verify").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	// Not a part of any test's time limit: the first time it takes minutes.
	if _, err := devnet.Build(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "build lnd:", err)
		return 1
	}
	binDir = dir
	return m.Run()
}

// TestMatrix plays the cells of the table one after the other in one market.
func TestMatrix(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Minute)
	defer cancel()
	w := newWorld(t, ctx)
	w.playTable(t, picked(table()), func(t *testing.T, c cell) { w.play(t, c) })
}

// playTable plays cells one after the other and prints how each ended.
func (w *world) playTable(t *testing.T, cells []cell, play func(*testing.T, cell)) {
	var rows []string
	for _, c := range cells {
		began, result := time.Now(), "failed"
		t.Run(c.name(), func(t *testing.T) {
			if c.skip != nil && c.skip(w) != "" {
				result = c.skip(w)
				return
			}
			play(t, c)
			if !t.Failed() {
				result = "ok"
			}
		})
		rows = append(rows, fmt.Sprintf("%-4s %-5s %6.1f s  %-7s %s", c.point, c.way, time.Since(began).Seconds(), result, c.what))
		if w.ctx.Err() != nil || w.broken {
			break
		}
	}
	fmt.Printf("\nPOINT WAY    TIME      RESULT  after...\n%s\n\n", strings.Join(rows, "\n"))
}

// picked are the cells of a table that are to be played.
func picked(cells []cell) (list []cell) {
	for i, c := range cells {
		if chosen(i, c) {
			list = append(list, c)
		}
	}
	return list
}

func chosen(i int, c cell) bool {
	switch which := os.Getenv(envAll); which {
	case "all":
		return true
	case "":
		return i%3 == 0
	default:
		for name := range strings.FieldsSeq(which) {
			if name == c.point || name == c.name() {
				return true
			}
		}
		return false
	}
}
