package cli

import (
	"github.com/lightwork-market/lightwork/internal/cli/accounts"
	"github.com/lightwork-market/lightwork/internal/cli/agents"
	"github.com/lightwork-market/lightwork/internal/cli/alerts"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/backup"
	"github.com/lightwork-market/lightwork/internal/cli/buy"
	"github.com/lightwork-market/lightwork/internal/cli/demo"
	"github.com/lightwork-market/lightwork/internal/cli/doctor"
	"github.com/lightwork-market/lightwork/internal/cli/images"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/cli/keys"
	"github.com/lightwork-market/lightwork/internal/cli/organism"
	"github.com/lightwork-market/lightwork/internal/cli/receipts"
	"github.com/lightwork-market/lightwork/internal/cli/relay"
	"github.com/lightwork-market/lightwork/internal/cli/replay"
	"github.com/lightwork-market/lightwork/internal/cli/schemas"
	"github.com/lightwork-market/lightwork/internal/cli/sell"
	"github.com/lightwork-market/lightwork/internal/cli/setup"
	"github.com/lightwork-market/lightwork/internal/cli/top"
	"github.com/lightwork-market/lightwork/internal/cli/wallet"
)

// cli is the command line; each command has a file of its own.
type cli struct {
	app.Globals

	Demo      demo.Cmd              `cmd:"" help:"Buy a job from yourself with play money and verify the receipt, in seconds."`
	Init      setup.Cmd             `cmd:"" help:"Write a commented lightwork.yaml and keys."`
	Doctor    doctor.Cmd            `cmd:"" help:"Check relays, wallet, agents, sandbox, clock and disk."`
	Run       sell.RunCmd           `cmd:"" help:"Run a node with all that its configuration has, until interrupted."`
	Status    top.StatusCmd         `cmd:"" help:"Show the roles of the running node, and why one does not run."`
	Relay     relay.Cmd             `cmd:"" help:"Run the embedded relay and blob server."`
	Provider  sell.Cmd              `cmd:"" help:"Sell: run jobs for others."`
	Buyer     buy.Cmd               `cmd:"" help:"Buy: find providers, submit jobs, follow them."`
	Policy    sell.PolicyCmd        `cmd:"" help:"What jobs run under: list, show, pin, roll back."`
	Jobs      jobs.Cmd              `cmd:"" help:"Look at a provider's jobs."`
	Agents    agents.Cmd            `cmd:"" help:"Approve, run, steer and test agents."`
	Ask       organism.AskCmd       `cmd:"" help:"Ask the organism of the running node."`
	Pipeline  organism.PipelineCmd  `cmd:"" help:"Show what agents may reach, and what they said to each other."`
	Sandbox   images.Cmd            `cmd:"" help:"Images that sandbox jobs may name."`
	Tools     agents.ToolsCmd       `cmd:"" help:"List, describe and call the tools of a running node's agents."`
	Receipts  receipts.Cmd          `cmd:"" help:"List, show, verify and export receipts."`
	Spendings accounts.SpendingsCmd `cmd:"" help:"Add up what purchases cost, by day, month, job type or provider."`
	Earnings  accounts.EarningsCmd  `cmd:"" help:"Add up what sales brought, by day, month, job type or buyer."`
	Alerts    alerts.Cmd            `cmd:"" help:"What needs attention now; try the ways by which you are told."`
	Stop      accounts.StopCmd      `cmd:"" name:"stop-spending" help:"Keep all money here: no purchase, refund or other payment leaves a wallet of this node."`
	Resume    accounts.ResumeCmd    `cmd:"" name:"resume-spending" help:"Let money leave again. What waited goes on."`
	Replay    replay.Cmd            `cmd:"" help:"Show, verify and export trajectories."`
	Schemas   schemas.Cmd           `cmd:"" help:"List and show job types."`
	Top       top.Cmd               `cmd:"" help:"A live screen of the running provider: jobs, money, relays, agents. q ends it."`
	Keys      keys.Cmd              `cmd:"" help:"Show, import and lock the keys; have a remote signer keep them."`
	Wallet    wallet.Cmd            `cmd:"" help:"Look at the wallet; serve play money."`
	Backup    backup.Cmd            `cmd:"" help:"Copy a database while it is in use, and check the copy."`
	Prune     backup.PruneCmd       `cmd:"" help:"Delete what the provider need not keep of its jobs any longer."`
	Restore   backup.RestoreCmd     `cmd:"" help:"Put a backup in the place of a database that is not in use."`
	ConfigC   setup.ConfigCmd       `cmd:"" name:"config" help:"Check the configuration."`
	Version   versionCmd            `cmd:"" help:"Print the version."`
}
