package app

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestReadLine reads what a person types, and gives up when told to.
func TestReadLine(t *testing.T) {
	for typed, want := range map[string]string{"Yes\n": "yes", " y \nrest": "y", "\n": "", "": "", strings.Repeat("y", 200): strings.Repeat("y", 64)} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if got, err := ReadLine(t.Context(), r); got != want || err != nil {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
		r.Close()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := ReadLine(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing typed: %v", err)
	}
}
