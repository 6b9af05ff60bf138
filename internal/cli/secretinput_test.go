package cli

import (
	"io"
	"testing"

	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// TestSecretOfAnOpenPipe: one line is enough, though whoever wrote it may write more.
func TestSecretOfAnOpenPipe(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, " a secret \n") }()
	got, err := app.SecretInput(&app.Streams{In: r}, "key")
	if err != nil || got != "a secret" {
		t.Errorf("%q, %v", got, err)
	}
}
