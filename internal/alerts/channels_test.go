package alerts

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var owed = Message{State: Raised, Node: "n", At: time.Unix(100, 0).UTC(), Alert: Alert{Kind: Debts, Text: "2 buyers; $(rm -rf /)", Since: time.Unix(100, 0).UTC()}}

// TestCommand: a program is really run, with the message on its standard input, without a
// shell and without the node's secrets.
func TestCommand(t *testing.T) {
	t.Setenv("LIGHTWORK_PROVIDER_PASSPHRASE", "a secret")
	out := filepath.Join(t.TempDir(), "out")
	c := Command([]string{"sh", "-c", `{ cat; echo "$0"; env; } > "$1"`, "$(touch here)", out})
	if err := c.Send(t.Context(), owed); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	var m Message
	if err := json.Unmarshal([]byte(line), &m); err != nil || m != owed {
		t.Errorf("%s: %v", line, err)
	}
	if !strings.HasPrefix(rest, "$(touch here)\n") || strings.Contains(rest, "a secret") || !strings.Contains(rest, "PATH=") {
		t.Error(rest)
	}
}

// TestCommandThatFails says what it said; one that hangs ends with all that it started.
func TestCommandThatFails(t *testing.T) {
	err := Command([]string{"sh", "-c", `echo "no\tmail" >&2; yes | head -c 100000 >&2; exit 3`}).Send(t.Context(), owed)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
	if err := Command([]string{"/nowhere"}).Send(t.Context(), owed); err == nil {
		t.Error("a program that is not there was run")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := Command([]string{"sh", "-c", "sleep 1000 & sleep 1000"}).Send(ctx, owed); err == nil {
		t.Error("it never ended")
	}
}

// TestWebhook: the address gets the message as JSON. What it answers, and where it is, is
// told to nobody.
func TestWebhook(t *testing.T) {
	status, got, target := 204, Message{}, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&got) != nil {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		target = r.URL.Path
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	c := Webhook(server.URL + "/secret-token")
	if err := c.Send(t.Context(), owed); err != nil || got != owed {
		t.Errorf("%v, %v", got, err)
	}
	for _, status = range []int{302, 404, 500} {
		if err := c.Send(t.Context(), owed); err == nil || target != "/secret-token" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v at %s", status, err, target)
		}
	}

	server.Close()
	if err := c.Send(t.Context(), owed); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
