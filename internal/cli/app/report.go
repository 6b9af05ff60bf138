package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// databaseSteps are the hints for a database that cannot be used. They come before
// any other: a command that cannot read a database may take it for missing.
var databaseSteps = map[node.Fault]string{
	node.TooOld:     "lightwork provider run brings the provider's up to date, lightwork buyer resume the buyer's; lightwork backup copies it as it is before that",
	node.Unreleased: "finish its jobs and take its money out with the program that made it; lightwork backup keeps a copy; then name a new folder as node.data_dir",
	node.TooNew:     "start the newer program again; to go back, lightwork restore a backup from before the upgrade",
	node.DiskFull:   "the disk is full: make room and run it again; nothing is half written",
	node.Damaged:    "the file is damaged: keep a copy of it, then lightwork restore --role ROLE --from FILE puts a backup in its place",
}

// nextSteps are the hints for errors of the packages below, which know no command.
// ID stands for the purchase.
var nextSteps = []struct {
	is   func(error) bool
	hint string
}{
	{isError(buyer.ErrIncomplete), "lightwork buyer resume ID waits for it again, and lightwork buyer cancel ID gives it up"},
	{isError(buyer.ErrUnasked), "lightwork buyer resume ID waits for it again"},
	{isError(buyer.ErrOrderOpen), "lightwork buyer resume ID asks the next provider"},
	{isError(buyer.ErrPanelOpen), "lightwork buyer resume goes on with the panel"},
	{isError(buyer.ErrOtherWallet), "configure that wallet again and run lightwork buyer resume ID, or give the purchase up with lightwork buyer cancel ID --wallet-lost"},
	{isError(buyer.ErrPaymentForgotten), "lightwork buyer resume ID goes on once the wallet has its records again; lightwork buyer cancel ID --wallet-lost gives the purchase up"},
	{isError(buyer.ErrJobType), "lightwork schemas list shows them"},
}

func isError(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// isPermission reports a file that this user may not use.
func isPermission(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) && errors.Is(file, fs.ErrPermission)
}

// hintFor is the next step after an error that has, or has not, a hint of its own.
func hintFor(err error, own string) string {
	fault := node.FaultOf(err)
	if step := databaseSteps[fault]; step != "" {
		return step
	}

	switch {
	case own != "":
		return own
	case fault == node.InUse:
		return "it runs already: one process at a time writes there"
	case isPermission(err):
		return advice.OtherUser
	}
	return NextStep(err, "")
}

// NextStep is the hint for an error that has none of its own, about a purchase if id
// is not empty; "" if there is none.
func NextStep(err error, id string) string {
	for _, step := range nextSteps {
		if step.is(err) {
			return strings.ReplaceAll(step.hint, " ID", strings.TrimRight(" "+id, " "))
		}
	}
	return ""
}

// Report prints an error as "lightwork: ..." with its hint and gives its code.
func Report(stderr io.Writer, g *Globals, err error) int {
	if err == nil {
		return advice.ExitOK
	}

	coded := &advice.Error{Code: advice.ExitFailed}
	_ = errors.As(err, &coded)
	if errors.Is(err, advice.ErrSilent) {
		return coded.Code
	}

	said, quoted, _ := strings.Cut(err.Error(), "\n") // lines of a file are shown as they are

	text := display.Printable(strings.TrimRight(g.Spell(said)+"\n"+Say(quoted), "\n"))
	hint := g.Spell(hintFor(err, coded.Hint))
	switch {
	case g.LogFormat == FormatJSON && hint != "":
		newLogger(stderr, "error", FormatJSON).Error(text, "hint", hint)
	case g.LogFormat == FormatJSON:
		newLogger(stderr, "error", FormatJSON).Error(text)
	case hint != "":
		fmt.Fprintf(stderr, "lightwork: %s\n  hint: %s\n", text, hint)
	default:
		fmt.Fprintln(stderr, "lightwork:", text)
	}

	return coded.Code
}
