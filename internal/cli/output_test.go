package cli

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is a writer that lets a test wait for a line.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 64)} }

func (l *output) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *output) await(t *testing.T, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	end := time.After(patience)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		select {
		case <-l.more:
		case <-end:
			t.Fatalf("no %q in %q", pattern, text)
		}
	}
}
