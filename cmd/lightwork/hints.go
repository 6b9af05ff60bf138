package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// defaultConfig is the file that is used unless another is named.
const defaultConfig = "lightwork.yaml"

// commandIn finds the commands that a hint tells to run, and what is before them:
// a path would be one that is spelt already.
var commandIn = regexp.MustCompile(`(^|[^\w/.-])lightwork ([a-zA-Z-]+)`)

// spell writes the commands of a hint as this user has to type them: with the
// program's place, and with the configuration that was given. Hints are written
// as "lightwork COMMAND" everywhere, so no command needs to know either.
func (g *globals) spell(hint string) string {
	return commandIn.ReplaceAllStringFunc(hint, func(found string) string {
		parts := commandIn.FindStringSubmatch(found)
		return parts[1] + g.spellCommand(parts[2])
	})
}

func (g *globals) spellCommand(command string) string {
	name := program("lightwork")
	switch command {
	case "init":
		if dir := filepath.Dir(g.Config); dir != "." {
			return name + " init --dir " + shellWord(dir)
		}
	case "doctor", "top", "keys", "relay", "provider", "buyer", "jobs", "agents", "tools", "receipts", "wallet", "policy", "backup", "restore", "config", "ask", "pipeline", "sandbox":
		if g.Config != "" && g.Config != defaultConfig {
			return name + " -c " + shellWord(g.Config) + " " + command
		}
	case "demo", "replay", "schemas", "version", "help", "--help":
	default:
		return "lightwork " + command // prose
	}
	return name + " " + command
}

// fromHome reads ~/ as a shell does where it stands alone; it does not in
// --dir=~/node.
func fromHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell if it has to be.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
