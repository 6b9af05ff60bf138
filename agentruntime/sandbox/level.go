package sandbox

import "fmt"

// Level says how firmly jobs are confined. The package documentation lists what
// each of them holds.
type Level string

// The levels, from the firmest on. The zero Level in Options means LevelFull.
const (
	// LevelFull has namespaces, and control groups for memory, processes and
	// processor time.
	LevelFull Level = "full"
	// LevelLimits has namespaces, but no control groups: rlimits bound each
	// process, and a watchdog ends a job whose processes are too many or too
	// large together.
	LevelLimits Level = "limits"
	// LevelLandlock has neither: Landlock bounds files and signals, the filter of
	// system calls refuses sockets too, and rlimits and the watchdog do the rest.
	LevelLandlock Level = "landlock"
)

// Levels lists them, the firmest first.
func Levels() []Level { return []Level{LevelFull, LevelLimits, LevelLandlock} }

// ParseLevel reads a level from a configuration.
func ParseLevel(text string) (Level, error) {
	for _, l := range Levels() {
		if string(l) == text {
			return l, nil
		}
	}
	return "", fmt.Errorf("must be %s, %s or %s", LevelFull, LevelLimits, LevelLandlock)
}

// AtLeast reports whether l is as firm as o, or firmer.
func (l Level) AtLeast(o Level) bool { return l.rank() >= o.rank() }

// rank is 0 for what is no level.
func (l Level) rank() int {
	for i, other := range Levels() {
		if l == other {
			return len(Levels()) - i
		}
	}
	return 0
}

// hasNamespaces reports whether jobs have a file system, processes and a network
// of their own.
func (l Level) hasNamespaces() bool { return l == LevelFull || l == LevelLimits }
