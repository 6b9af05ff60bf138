// Package job has what the stages of a provider and its store share: a job with its
// states, its charges and debts, and the reasons why it ends. It knows no relay, no
// wallet and no database.
package job

import "slices"

// State is where a job stands. A job only moves forward, along [State.Leads]; the
// store refuses any other step with [ErrConflict].
//
//	quoted -> paid -> running -> delivering -> succeeded   (hold, prepay)
//	quoted -> running -> delivering -> succeeded           (postpay, free)
//	any of quoted, paid, running, delivering -> failed | canceled | expired
//	running -> running                                     (a rerun after a crash, with the next run number)
//	refused                                                (never admitted)
//
// A job with an engagement fee stays quoted until the fee has its receipt.
type State string

// The states of a job.
const (
	StateRefused    State = "refused"    // not admitted; the reason was sent
	StateQuoted     State = "quoted"     // quote committed; the invoice may or may not exist yet
	StatePaid       State = "paid"       // payment held or received, directive recorded
	StateRunning    State = "running"    // an agent works on it
	StateDelivering State = "delivering" // the signed result is durable; publishing, then settling
	StateSucceeded  State = "succeeded"
	StateFailed     State = "failed"
	StateCanceled   State = "canceled"
	StateExpired    State = "expired" // never paid in time
)

// leads has the steps that a job may take from each state.
var leads = map[State][]State{
	StateRefused:    nil,
	StateQuoted:     {StatePaid, StateRunning, StateFailed, StateCanceled, StateExpired},
	StatePaid:       {StateRunning, StateFailed, StateCanceled, StateExpired},
	StateRunning:    {StateRunning, StateDelivering, StateFailed, StateCanceled, StateExpired},
	StateDelivering: {StateSucceeded, StateFailed, StateCanceled, StateExpired},
	StateSucceeded:  nil,
	StateFailed:     nil,
	StateCanceled:   nil,
	StateExpired:    nil,
}

// States lists every state, in the order in which a job comes to them.
func States() []State {
	return []State{StateRefused, StateQuoted, StatePaid, StateRunning, StateDelivering, StateSucceeded, StateFailed, StateCanceled, StateExpired}
}

// Leads reports whether a job may go from one state to the other. Its mode may forbid
// the step all the same: what is held or prepaid does not run unpaid.
func (s State) Leads(to State) bool { return slices.Contains(leads[s], to) }

// Terminal reports whether nothing more happens to a job in this state.
func (s State) Terminal() bool {
	next, known := leads[s]
	return known && len(next) == 0
}

// Before lists the states from which a job may go to this one.
func (s State) Before() []State {
	return slices.DeleteFunc(States(), func(from State) bool { return !from.Leads(s) })
}
