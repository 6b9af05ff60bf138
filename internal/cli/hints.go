package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
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

// nextSteps are the hints for errors of the packages below, which know no command.
// ID stands for the purchase.
var nextSteps = []struct {
	err  error
	hint string
}{
	{buyer.ErrIncomplete, "lightwork buyer resume ID waits for it again, and lightwork buyer cancel ID gives it up"},
	{buyer.ErrUnasked, "lightwork buyer resume ID waits for it again"},
	{buyer.ErrOrderOpen, "lightwork buyer resume ID asks the next provider"},
	{buyer.ErrPanelOpen, "lightwork buyer resume goes on with the panel"},
	{buyer.ErrOtherWallet, "configure that wallet again and run lightwork buyer resume ID, or give the purchase up with lightwork buyer cancel ID --wallet-lost"},
	{buyer.ErrPaymentForgotten, "lightwork buyer resume ID goes on once the wallet has its records again; lightwork buyer cancel ID --wallet-lost gives the purchase up"},
	{buyer.ErrJobType, "lightwork schemas list shows them"},
}

// nextStep is the hint for an error that has none of its own, about a purchase if id
// is not empty; "" if there is none.
func nextStep(err error, id string) string {
	for _, n := range nextSteps {
		if errors.Is(err, n.err) {
			return strings.ReplaceAll(n.hint, " ID", strings.TrimRight(" "+id, " "))
		}
	}
	return ""
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
