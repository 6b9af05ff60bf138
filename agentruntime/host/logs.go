package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// keptRuns is how many runs of an agent keep their log; the supervisor bounds
// each one.
const keptRuns = 10

// Logs writes what agents print: one file a run, DIR/AGENT/TIME-RUN.log, each
// line with time and stream, and with what looks like a secret masked.
type Logs struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	files map[string]*os.File // by agent id; the current run's
	runs  map[string]string   // the run each file is of
}

// OpenLogs uses a folder, which is made if it is missing.
func OpenLogs(dir string, log *slog.Logger) (*Logs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agent logs: %w", err)
	}
	return &Logs{dir: dir, log: log, files: map[string]*os.File{}, runs: map[string]string{}}, nil
}

// Write keeps one line; it is meant for supervisor.Config.OnLog. A disk that
// is full loses lines, not the agent.
func (l *Logs) Write(line supervisor.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.file(line.AgentID, line.RunID)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line.Stream, redact.Text(line.Text))
	}
	if err != nil {
		l.log.Debug("agent output lost", "agent", line.AgentID, "err", err)
	}
}

func (l *Logs) file(agent, run string) (*os.File, error) {
	if f := l.files[agent]; f != nil && l.runs[agent] == run {
		return f, nil
	}
	if !wire.ValidAgentID(agent) {
		return nil, fmt.Errorf("agent id %q", agent)
	}

	dir := filepath.Join(l.dir, agent)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if old := l.files[agent]; old != nil {
		old.Close()
		delete(l.files, agent)
	}

	name := time.Now().UTC().Format("20060102T150405.000") + "-" + run + ".log"
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l.files[agent], l.runs[agent] = f, run
	runs, err := Runs(l.dir, agent)
	for err == nil && len(runs) > keptRuns {
		err = os.Remove(runs[0])
		runs = runs[1:]
	}

	return f, nil
}

// Close closes the files. What is written afterwards opens them again.
func (l *Logs) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for agent, f := range l.files {
		f.Close()
		delete(l.files, agent)
	}
}

// Runs lists an agent's log files below dir, oldest first.
func Runs(dir, agent string) ([]string, error) {
	if !wire.ValidAgentID(agent) {
		return nil, fmt.Errorf("agent %q: %w", agent, ErrUnknownAgent)
	}
	dir = filepath.Join(dir, agent)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".log") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}

	slices.Sort(files)
	return files, nil
}
