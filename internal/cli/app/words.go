package app

import (
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// words are how the actions of a text are done on the command line.
var words = map[string]string{
	advice.ApproveAgent:    "lightwork agents approve",
	advice.BackUp:          "lightwork backup",
	advice.CallFolder:      "agents call --dir DIR",
	advice.Check:           "lightwork doctor",
	advice.CheckConfig:     "lightwork config check",
	advice.ConnectKey:      "lightwork keys connect",
	advice.Drain:           "lightwork provider drain",
	advice.ExplainRights:   "lightwork wallet permissions --help",
	advice.ImportKey:       "lightwork keys import",
	advice.ListAgents:      "lightwork agents list",
	advice.ListJobs:        "lightwork jobs list",
	advice.ListPolicies:    "lightwork policy list",
	advice.ListSchemas:     "lightwork schemas list",
	advice.MergeResults:    "--adjudicate merge",
	advice.NameConfig:      "-c",
	advice.NameListener:    "--listener",
	advice.NameRole:        "--role",
	advice.Purchase:        "lightwork buyer submit",
	advice.ReadAgentLog:    "lightwork agents logs",
	advice.ReplaceFile:     "--force",
	advice.RestartAgent:    "lightwork agents restart",
	advice.RestoreWords:    "lightwork wallet cashu-restore --words",
	advice.ResumePurchases: "lightwork buyer resume",
	advice.Resume:          "lightwork provider resume",
	advice.ResumeJob:       "lightwork provider resume --job",
	advice.ResumeSpending:  "lightwork resume-spending",
	advice.RotateKey:       "lightwork keys rotate",
	advice.RunProvider:     "lightwork provider run",
	advice.RunRelay:        "lightwork relay",
	advice.ServePlayMoney:  "lightwork wallet play-serve",
	advice.TrustClock:      "lightwork prune --clock-is-right",
	advice.SetUp:           "lightwork init",
	advice.SetUpAgain:      "lightwork init --force",
	advice.SetUpCashu:      "lightwork init --wallet cashu",
	advice.SetUpElsewhere:  "lightwork init --dir DIR --wallet cashu --mint",
	advice.ShowChainRights: "lightwork wallet permissions --chain",
	advice.ShowInput:       "lightwork schemas show --input",
	advice.ShowOutput:      "--output",
	advice.ShowRights:      "lightwork wallet permissions",
	advice.ShowSeed:        "lightwork wallet cashu-seed",
	advice.ShowWallet:      "lightwork wallet status",
	advice.TakeNotesOut:    "lightwork wallet cashu-export",
	advice.UnpinPolicy:     "lightwork policy unpin",
}

// Say writes the actions of a text as commands and flags.
func Say(text string) string { return advice.Say(text, words) }

// Day reads the day (UTC) that a flag names; the zero time if it names none.
func Day(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 2009 {
		return time.Time{}, advice.Usage("a day is written like 2026-11-26", "%s %q is not a day", flag, text)
	}
	return at, nil
}
