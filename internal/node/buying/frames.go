package buying

import (
	"errors"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
)

// The control socket of a running buyer speaks HTTP:
//
//	POST /v1/take     named: the buyer works on it from now on
//	POST /v1/follow   named: the same; answers frames, one a line, the last of which has the end
//
// Every request shows the key of the file beside the socket.

// named is what a request is about: a purchase or a panel, by its whole id.
type named struct {
	ID string `json:"id"`
}

// frame is one line of an answer: a step, or the end.
type frame struct {
	Member string          `json:"member,omitempty"` // whose step it is, of a panel
	Step   *buyer.Progress `json:"step,omitempty"`
	End    *end            `json:"end,omitempty"`
}

// end is how the work on a purchase ended; without an error it is done.
type end struct {
	Error string   `json:"error,omitempty"`
	Kinds []string `json:"kinds,omitempty"` // of errors that a program tells apart
}

// kinds of errors that keep their identity over the socket.
var kinds = map[string]error{
	"failed": buyer.ErrFailed, "incomplete": buyer.ErrIncomplete, "no_relay": buyer.ErrNoRelay, "unasked": buyer.ErrUnasked,
	"order_open": buyer.ErrOrderOpen, "panel_open": buyer.ErrPanelOpen, "other_wallet": buyer.ErrOtherWallet,
	"payment_forgotten": buyer.ErrPaymentForgotten, "no_consensus": panel.ErrNoConsensus, "judge": panel.ErrJudge, "no_judge": panel.ErrNoJudge,
}

func endOf(err error) *end {
	if err == nil {
		return &end{}
	}
	e := &end{Error: err.Error()}
	for kind, is := range kinds {
		if errors.Is(err, is) {
			e.Kinds = append(e.Kinds, kind)
		}
	}
	return e
}

// remoteError is an error of the running buyer.
type remoteError struct {
	text string
	are  []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.are }

func (e *end) err() error {
	if e.Error == "" {
		return nil
	}
	r := &remoteError{text: e.Error}
	for _, kind := range e.Kinds {
		if is := kinds[kind]; is != nil {
			r.are = append(r.are, is)
		}
	}
	return r
}
