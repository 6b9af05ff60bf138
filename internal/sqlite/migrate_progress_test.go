package sqlite

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongMigrationSaysSo: while a script runs, the log shows its progress.
func TestLongMigrationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := &DB{path: t.TempDir() + "/node.db", log: slog.New(slog.NewTextHandler(&log, nil))}
		stop := db.reportProgress(3, 7)
		time.Sleep(2*progressInterval + time.Second)
		stop()
		time.Sleep(5 * progressInterval)
		for _, want := range []string{"version=3 of=7 for=10s written_bytes=0", "version=3 of=7 for=20s"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %q in %s", want, log.String())
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines", n)
		}
	})
}
