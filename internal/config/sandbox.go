package config

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
)

// Sandbox says what commands of buyers may reach, and how firmly they are confined.
type Sandbox struct {
	// FetchFrom are the servers that jobs may have repositories fetched from.
	FetchFrom []string `yaml:"fetch_from"`
	// CAFile holds further authorities for those servers.
	CAFile string `yaml:"ca_file"`
	// FullNetworkMB is what a job with the network policy "full" may send and
	// receive; 0 refuses such jobs.
	FullNetworkMB int64 `yaml:"full_network_mb"`
	// OpenedNetworks may be reached by such a job though they are not public.
	OpenedNetworks []string `yaml:"opened_networks"`
	// LeastConfinement is the weakest level that commands of buyers run at.
	LeastConfinement string `yaml:"least_confinement"`
}

func (s Sandbox) check() *Problem {
	if s.FullNetworkMB < 0 || s.FullNetworkMB > maxNetworkMB {
		return Mistake("$.sandbox.full_network_mb", fmt.Sprintf("must be 0 (refused) to %d", maxNetworkMB))
	}

	for i, text := range s.OpenedNetworks {
		if _, err := netip.ParsePrefix(text); err != nil {
			return Mistake(fmt.Sprintf("$.sandbox.opened_networks[%d]", i), "must be a network such as 10.1.0.0/16")
		}
	}

	if s.LeastConfinement != "" {
		if _, err := sandbox.ParseLevel(s.LeastConfinement); err != nil {
			return Mistake("$.sandbox.least_confinement", err.Error())
		}
	}
	return nil
}

// Least is the weakest level that jobs run at: the firmest there is, unless the
// configuration says in so many words that less will do.
func (s Sandbox) Least() sandbox.Level {
	return sandbox.Level(cmp.Or(s.LeastConfinement, string(sandbox.LevelFull)))
}

// maxNetworkMB is 1 TiB: more is a slip.
const maxNetworkMB = 1 << 20
