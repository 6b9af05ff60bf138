package cli

import (
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/provider"
)

// lifecycleConfig has a kind for each event that is to be published; 0: none.
type lifecycleConfig struct {
	AgentProfile      int  `yaml:"agent_profile"`
	AgentState        int  `yaml:"agent_state"`
	TickRequest       int  `yaml:"tick_request"`
	TickResult        int  `yaml:"tick_result"`
	TrajectorySession int  `yaml:"trajectory_session"`
	TrajectoryEvent   int  `yaml:"trajectory_event"`
	Encrypt           bool `yaml:"encrypt"` // trajectories, to the buyer
}

func (c lifecycleConfig) provider() provider.Lifecycle {
	return provider.Lifecycle{Encrypt: c.Encrypt, Kinds: lifecycle.Kinds{
		AgentProfile: c.AgentProfile, AgentState: c.AgentState, TickRequest: c.TickRequest,
		TickResult: c.TickResult, TrajectorySession: c.TrajectorySession, TrajectoryEvent: c.TrajectoryEvent,
	}}
}

func (c lifecycleConfig) check() *configError {
	if err := c.provider().Kinds.Check(); err != nil {
		return &configError{"$.provider.lifecycle", err.Error()}
	}
	return nil
}
