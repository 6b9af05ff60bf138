package advice

import (
	"regexp"
	"strings"
)

// What whoever reads a text can do. The rooms of a node know no command: a text of theirs
// has one of these in the place of each, and the program that shows the text puts its own
// words there, with [Say]. They are constants, so that a text is written as it is read.
const (
	ApproveAgent    = "{approve-agent}" // of an id, see With
	BackUp          = "{back-up}"       // a role's database, or the whole node
	CallFolder      = "{call-folder}"   // a tool of a folder, without a node
	Check           = "{check}"         // what a node needs
	CheckConfig     = "{check-config}"
	ConnectKey      = "{connect-key}" // of a role, with a remote signer
	ImportKey       = "{import-key}"
	Drain           = "{drain}" // the provider, of what is open
	ListAgents      = "{list-agents}"
	ListJobs        = "{list-jobs}"
	ListPolicies    = "{list-policies}"
	ListSchemas     = "{list-schemas}"
	MergeResults    = "{merge-results}" // of several providers, without a judge
	NameConfig      = "{name-config}"   // that is not where it is looked for
	NameListener    = "{name-listener}"
	NameRole        = "{name-role}"
	Purchase        = "{purchase}"
	ReadAgentLog    = "{read-agent-log}" // of an id
	ReplaceFile     = "{replace-file}"
	RestartAgent    = "{restart-agent}" // of an id
	RestoreWords    = "{restore-words}" // of a wallet of notes
	Resume          = "{resume}"        // the taking of jobs
	ResumeJob       = "{resume-job}"    // the taking of jobs of a type
	ResumePurchases = "{resume-purchases}"
	RotateKey       = "{rotate-key}" // of a role
	ResumeSpending  = "{resume-spending}"
	RunProvider     = "{run-provider}"
	RunRelay        = "{run-relay}"
	TrustClock      = "{trust-clock}" // of this machine, for pruning
	ServePlayMoney  = "{serve-play-money}"
	SetUp           = "{set-up}" // a node, or what it lacks
	SetUpAgain      = "{set-up-again}"
	SetUpCashu      = "{set-up-cashu}"
	SetUpElsewhere  = "{set-up-elsewhere}" // another node with notes of a mint
	ShowInput       = "{show-input}"       // what a tool for a job type is given
	ShowOutput      = "{show-output}"      // the same command, what it must give
	ShowRights      = "{show-rights}"      // that a role needs of lnd
	ExplainRights   = "{explain-rights}"
	ShowChainRights = "{show-chain-rights}"
	ShowSeed        = "{show-seed}"
	ShowWallet      = "{show-wallet}"
	TakeNotesOut    = "{take-notes-out}"
	UnpinPolicy     = "{unpin-policy}"
)

// With is an action on a thing, such as an agent.
func With(action, thing string) string {
	return strings.TrimSuffix(action, "}") + " " + thing + "}"
}

var actionIn = regexp.MustCompile(`\{([a-z]+(?:-[a-z]+)*)( [^{}]+)?\}`)

// Say puts the words that a program has for them in the place of a text's actions. An
// action without words stays as it is.
func Say(text string, words map[string]string) string {
	return actionIn.ReplaceAllStringFunc(text, func(found string) string {
		parts := actionIn.FindStringSubmatch(found)
		said, ok := words["{"+parts[1]+"}"]
		if !ok {
			return found
		}
		return said + parts[2]
	})
}
