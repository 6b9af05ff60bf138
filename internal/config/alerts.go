package config

import (
	"net"
	"net/url"

	"github.com/lightwork-market/lightwork/receipts"
)

// Alerts say how the owner is told of what needs attention; none tells nobody.
type Alerts struct {
	// Command is a program with its arguments, which no shell reads.
	Command []string `yaml:"command"`
	// Webhook is https, or http on this machine. It may be a secret.
	Webhook string `yaml:"webhook"`
	// Owner is whom an encrypted message goes to.
	Owner string `yaml:"owner"`
}

// OwnerKey is the owner's key in hex, "" if none is named.
func (a Alerts) OwnerKey() string {
	key, _ := receipts.ParseKey(a.Owner) // checked before
	return key
}

func (a Alerts) check() *Problem {
	if a.Command != nil && (len(a.Command) == 0 || a.Command[0] == "") {
		return Mistake("$.alerts.command", "must be a program and its arguments, such as [/usr/local/bin/alert, urgent]")
	}
	if a.Webhook != "" && !isHook(a.Webhook) {
		return Mistake("$.alerts.webhook", "must be an https:// address without user or password; http:// is for this machine alone")
	}
	if _, err := receipts.ParseKey(a.Owner); a.Owner != "" && err != nil {
		return Mistake("$.alerts.owner", "must be an npub1... or 64 hex digits")
	}
	return nil
}

// isHook reports an https address, or an http one of this machine.
func isHook(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}
