package sandbox

import "fmt"

// Level says how firmly jobs are confined, see the package documentation.
type Level string

// The levels, the firmest first. The zero Level in Options means LevelFull.
const (
	// LevelFull uses namespaces, and control groups for memory, processes and
	// processor time.
	LevelFull Level = "full"
	// LevelLimits uses namespaces but no control groups: rlimits bound each
	// process, and a watchdog ends a job whose processes together are too many or
	// use too much memory.
	LevelLimits Level = "limits"
	// LevelLandlock uses neither: Landlock restricts files and signals, the system
	// call filter also refuses sockets, and rlimits and the watchdog bound
	// resources.
	LevelLandlock Level = "landlock"
)

// levels returns all levels, the firmest first.
func levels() []Level { return []Level{LevelFull, LevelLimits, LevelLandlock} }

// ParseLevel parses a level of a configuration.
func ParseLevel(text string) (Level, error) {
	for _, l := range levels() {
		if string(l) == text {
			return l, nil
		}
	}
	return "", fmt.Errorf("must be %s, %s or %s", LevelFull, LevelLimits, LevelLandlock)
}

// AtLeast reports whether l is as firm as o, or firmer.
func (l Level) AtLeast(o Level) bool { return l.rank() >= o.rank() }

// rank is 0 for an invalid level.
func (l Level) rank() int {
	for i, other := range levels() {
		if l == other {
			return len(levels()) - i
		}
	}
	return 0
}

// hasNamespaces reports whether jobs have their own file system, processes and
// network.
func (l Level) hasNamespaces() bool { return l == LevelFull || l == LevelLimits }
