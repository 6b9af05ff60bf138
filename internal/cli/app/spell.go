package app

import (
	"path/filepath"
	"regexp"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
)

// commandIn finds the commands that a hint tells to run, and what is before them:
// a path would be one that is spelt already.
var commandIn = regexp.MustCompile(`(^|[^\w/.-])lightwork ([a-zA-Z-]+)`)

// Spell writes the commands of a hint as this user has to type them: with the
// program's place, and with the configuration that was given. Commands write their
// hints as "lightwork COMMAND", and rooms that know no command name an action.
func (g *Globals) Spell(hint string) string {
	return commandIn.ReplaceAllStringFunc(Say(hint), func(found string) string {
		parts := commandIn.FindStringSubmatch(found)
		return parts[1] + g.spellCommand(parts[2])
	})
}

func (g *Globals) spellCommand(command string) string {
	name := display.Program("lightwork")
	switch command {
	case "init":
		if dir := filepath.Dir(g.Config); dir != "." {
			return name + " init --dir " + display.ShellWord(dir)
		}
	case "run", "status", "doctor", "top", "keys", "relay", "provider", "buyer", "jobs", "agents", "tools", "receipts", "wallet", "policy", "backup", "restore", "prune", "config", "ask", "pipeline", "sandbox",
		"spendings", "earnings", "alerts", "stop-spending", "resume-spending":
		if g.Config != "" && g.Config != config.DefaultFile {
			return name + " -c " + display.ShellWord(g.Config) + " " + command
		}
	case "demo", "replay", "schemas", "version", "help", "--help":
	default:
		return "lightwork " + command // prose
	}

	return name + " " + command
}
