package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/nbd-wtf/go-nostr"
)

// killer ends its process, for good and at once, at one step of its first
// life. Steps are told to it as they begin and as they have succeeded; the
// trace of all lives is one file.
type killer struct {
	point string // "after store:SetPaid", or "#17" for whatever step is the 17th
	full  bool   // it may live, and write to no file any more
	dir   string

	mu    sync.Mutex
	n     int
	names map[string]string // event id -> what the event is
}

// newLife is where the trace of a life begins.
const newLife = "life"

// The files in a child's folder.
const (
	traceFile  = "trace"
	killedFile = "killed" // holds the step; a later life is not killed again
)

// step runs do as the named step.
func (k *killer) step(name string, do func() error) error {
	k.at("before " + name)
	err := do()
	if err == nil {
		k.at("after " + name)
	}
	return err
}

func (k *killer) at(where string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	k.note(where)
	if where != k.point && fmt.Sprintf("#%d", k.n) != k.point {
		return
	}
	mark, err := os.OpenFile(filepath.Join(k.dir, killedFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // an earlier life was killed
	}
	fmt.Fprintln(mark, where)
	mark.Close()
	if k.full {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			panic(err)
		}
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // not one more instruction of this goroutine
}

// note adds a line to the trace, which a kill cannot take back. On a full disk
// there is no room for it.
func (k *killer) note(line string) {
	f, err := os.OpenFile(filepath.Join(k.dir, traceFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// name remembers what an event is and returns it: "6050", "7000-success".
func (k *killer) name(ev nostr.Event) string {
	name := fmt.Sprint(ev.Kind)
	if t := ev.Tags.Find("status"); t != nil {
		name += "-" + t[1]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[ev.ID] = name
	return name
}

func (k *killer) known(eventID string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[eventID]
}

// readTrace returns the steps that began or succeeded, over all lives.
func readTrace(dir string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, traceFile))
	return strings.Split(strings.TrimSpace(string(raw)), "\n"), err
}
