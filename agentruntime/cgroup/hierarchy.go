package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// makeGroup makes name below the first parent that allows it and that hands
// the needed controllers down.
func makeGroup(parents []string, name string, need []string) (string, error) {
	var errs []error
	for _, parent := range parents {
		if err := delegate(parent, need); err != nil {
			errs = append(errs, err)
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}

		// A plain directory, of a controller that is not mounted, has no files.
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			_ = os.Remove(dir)
			errs = append(errs, fmt.Errorf("%s is not a cgroup", parent))
			continue
		}

		return dir, nil
	}

	return "", errors.Join(errs...)
}

// delegate makes sure that children of a unified cgroup have the controllers.
func delegate(parent string, need []string) error {
	if len(need) == 0 {
		return nil
	}
	file := filepath.Join(parent, "cgroup.subtree_control")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	have := strings.Fields(string(text))
	for _, c := range need {
		if slices.Contains(have, c) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+c), 0); err != nil {
			return fmt.Errorf("hand %s down: %w", c, err)
		}
	}

	return nil
}

func legacyParents(mount, own string) []string {
	parents := []string{filepath.Join(mount, own)}
	if os.Geteuid() == 0 && parents[0] != mount {
		parents = append(parents, mount)
	}
	return parents
}

// unifiedParents begins with the own cgroup; since one that has processes
// cannot hand controllers down, its parent follows.
func unifiedParents(root, own string) []string {
	parents := []string{filepath.Join(root, own)}
	if own != "/" && own != "" {
		parents = append(parents, filepath.Join(root, filepath.Dir(own)))
	}
	if os.Geteuid() == 0 && !slices.Contains(parents, root) {
		parents = append(parents, root)
	}
	return parents
}

// Version is 2 for a unified hierarchy at root, 1 for the older form, 0 for none.
func Version(root string) int {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return 2
	}
	if _, err := os.Stat(filepath.Join(root, "memory", "cgroup.procs")); err == nil {
		return 1
	}
	return 0
}

// ownGroups maps each controller, "" for the unified hierarchy, to the path
// of the cgroup this process is in.
func ownGroups() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	return parseGroups(string(text)), nil
}

func parseGroups(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own
}
