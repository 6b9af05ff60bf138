package purchase

import "slices"

// State is where a purchase stands. It only moves along [State.Leads]; a store refuses
// any other step with [ErrConflict].
//
//	requested -> paying -> paid -> done     (hold, prepay; postpay once the result is here)
//	requested -> done                       (free)
//	paying -> requested                     (the fee for the attempt is paid)
//	any open state -> failed | canceled
//
// Result and receipt arrive when they arrive; they are fields, not states. A purchase
// is done when everything that its mode promises is stored.
type State string

// The states of a purchase.
const (
	StateRequested State = "requested" // the request is signed and stored, maybe published
	StatePaying    State = "paying"    // budget reserved, acceptance signed, payment begun or about to be
	StatePaid      State = "paid"      // the payment succeeded: preimage stored, budget debited
	StateDone      State = "done"
	StateFailed    State = "failed"
	StateCanceled  State = "canceled"
)

// leads has the steps that a purchase may take from each state.
var leads = map[State][]State{
	StateRequested: {StatePaying, StateDone, StateFailed, StateCanceled},
	StatePaying:    {StateRequested, StatePaid, StateFailed, StateCanceled},
	StatePaid:      {StateDone, StateFailed, StateCanceled},
	StateDone:      nil,
	StateFailed:    nil,
	StateCanceled:  nil,
}

// States lists every state, in the order in which a purchase comes to them.
func States() []State {
	return []State{StateRequested, StatePaying, StatePaid, StateDone, StateFailed, StateCanceled}
}

// Leads reports whether a purchase may go from one state to the other.
func (s State) Leads(to State) bool { return slices.Contains(leads[s], to) }

// Terminal reports whether nothing more happens to a purchase in this state.
func (s State) Terminal() bool {
	next, known := leads[s]
	return known && len(next) == 0
}
