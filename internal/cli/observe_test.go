package cli

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// httpGet STATUS URL FILE asks until the answer has the status, and writes it
// to the file.
func httpGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: httpget STATUS URL FILE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(args[1])
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		if resp.StatusCode == want {
			ts.Check(os.WriteFile(ts.MkAbs(args[2]), body, 0o600))
			return
		}
		got = resp.Status + "\n" + string(body)
	}
	ts.Fatalf("%s: want %d, got %s", args[1], want, got)
}
