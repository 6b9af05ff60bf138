//go:build lnd

package crashmatrix

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestMatrix plays the cells of all rails, one world after the other, and prints
// one table of them.
func TestMatrix(t *testing.T) {
	var r report
	for _, world := range []struct {
		name  string
		cells []cell
		start func(t *testing.T, ctx context.Context) (w *world, play func(*testing.T, cell))
	}{
		{"lnd", lndTable(), func(t *testing.T, ctx context.Context) (*world, func(*testing.T, cell)) {
			w := newWorld(t, ctx)
			return w, w.play
		}},
		{"cashu", cashuTable(), func(t *testing.T, ctx context.Context) (*world, func(*testing.T, cell)) {
			w := newCashuWorld(t, ctx)
			return w.world, w.play
		}},
		{"chain", chainTable(), func(t *testing.T, ctx context.Context) (*world, func(*testing.T, cell)) {
			w := newChainWorld(t, ctx)
			return w.world, w.playOnChain
		}},
	} {
		cells := picked(t, world.cells)
		if len(cells) == 0 {
			continue
		}
		t.Run(world.name, func(t *testing.T) {
			rows := r.expect(cells)
			ctx, cancel := context.WithTimeout(t.Context(), 45*time.Minute)
			defer cancel()
			w, play := world.start(t, ctx)
			w.playAll(t, rows, play)
		})
	}
	r.print(t)
}

// playAll plays cells one after the other. Those after one from which the world
// does not recover stay as they are: not played.
func (w *world) playAll(t *testing.T, rows []*outcome, play func(*testing.T, cell)) {
	for _, row := range rows {
		c := row.cell
		if w.ctx.Err() != nil || w.broken {
			t.Errorf("%s is not played: the world is broken", c.name())
			continue
		}
		began := time.Now()
		row.result = "FAILED"
		t.Run(c.name(), func(t *testing.T) {
			if c.skip != nil && c.skip(w) != "" {
				row.result = c.skip(w)
				testclass.Unavailable(t, row.result)
			}
			play(t, c)
			if !t.Failed() {
				row.result = ok
			}
		})
		row.took = time.Since(began)
	}
}

// picked are the cells of a table that are to be played: those that the environment
// names, or a fifth that the seed chooses.
func picked(t *testing.T, cells []cell) (list []cell) {
	t.Helper()
	which := os.Getenv(envAll)
	if which == "" {
		n := testclass.Size(t, (len(cells)+4)/5, len(cells), "crash-matrix")
		drawn := testclass.Lot(t).Perm(len(cells))[:n]
		slices.Sort(drawn)
		for _, i := range drawn {
			list = append(list, cells[i])
		}
		return list
	}
	for _, c := range cells {
		if which == "all" || named(which, c) {
			list = append(list, c)
		}
	}
	return list
}

func named(list string, c cell) bool {
	for name := range strings.FieldsSeq(list) {
		if name == c.point || name == c.name() || name == string(c.rail) || slices.Contains(c.rows(), name) {
			return true
		}
	}
	return false
}
