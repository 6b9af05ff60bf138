package sqlite

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongMigrationSaysSo: while a script runs, its operator hears that it gets on.
func TestLongMigrationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		db := &DB{path: t.TempDir() + "/node.db", log: slog.New(slog.NewTextHandler(&told, nil))}
		stop := db.tellWhile(3, 7)
		time.Sleep(2*tellEvery + time.Second)
		stop()
		time.Sleep(5 * tellEvery)
		for _, want := range []string{"version=3 of=7 for=10s written_bytes=0", "version=3 of=7 for=20s"} {
			if !strings.Contains(told.String(), want) {
				t.Errorf("no %q in %s", want, told.String())
			}
		}
		if n := strings.Count(told.String(), "\n"); n != 2 {
			t.Errorf("%d lines", n)
		}
	})
}
