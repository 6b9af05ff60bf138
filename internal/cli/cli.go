package cli

import (
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// cli is the command line; each command has a file of its own.
type cli struct {
	app.Globals

	Demo     demoCmd     `cmd:"" help:"Buy a job from yourself with play money and verify the receipt, in seconds."`
	Init     initCmd     `cmd:"" help:"Write a commented lightwork.yaml and keys."`
	Doctor   doctorCmd   `cmd:"" help:"Check relays, wallet, agents, sandbox, clock and disk."`
	Relay    relayCmd    `cmd:"" help:"Run the embedded relay and blob server."`
	Provider providerCmd `cmd:"" help:"Sell: run jobs for others."`
	Buyer    buyerCmd    `cmd:"" help:"Buy: find providers, submit jobs, follow them."`
	Policy   policyCmd   `cmd:"" help:"What jobs run under: list, show, pin, roll back."`
	Jobs     jobsCmd     `cmd:"" help:"Look at a provider's jobs."`
	Agents   agentsCmd   `cmd:"" help:"Approve, run, steer and test agents."`
	Ask      askCmd      `cmd:"" help:"Ask the organism of the running node."`
	Pipeline pipelineCmd `cmd:"" help:"Show what agents may reach, and what they said to each other."`
	Sandbox  sandboxCmd  `cmd:"" help:"Images that sandbox jobs may name."`
	Tools    toolsCmd    `cmd:"" help:"List, describe and call the tools of a running node's agents."`
	Receipts receiptsCmd `cmd:"" help:"List, show, verify and export receipts."`
	Replay   replayCmd   `cmd:"" help:"Show, verify and export trajectories."`
	Schemas  schemasCmd  `cmd:"" help:"List and show job types."`
	Top      topCmd      `cmd:"" help:"A live screen of the running provider: jobs, money, relays, agents. q ends it."`
	Keys     keysCmd     `cmd:"" help:"Show, import and lock the keys; have a remote signer keep them."`
	Wallet   walletCmd   `cmd:"" help:"Look at the wallet; serve play money."`
	Backup   backupCmd   `cmd:"" help:"Copy a database while it is in use, and check the copy."`
	Restore  restoreCmd  `cmd:"" help:"Put a backup in the place of a database that is not in use."`
	ConfigC  configCmd   `cmd:"" name:"config" help:"Check the configuration."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}
