package buyer

import (
	"context"
	"errors"
	"testing"
)

// elsewherePaid is a store in which another follower has paid for the purchase.
type elsewherePaid struct {
	Store
	t *testing.T
}

func (elsewherePaid) Purchase(_ context.Context, id string) (Purchase, error) {
	return Purchase{RequestID: id, State: StatePaid, Attempt: &Attempt{}}, nil
}

func (s elsewherePaid) Close(context.Context, string, State, string) error {
	s.t.Error("a purchase that was paid for is closed")
	return nil
}

// TestWhatIsPaidIsNotDeclined: of two that follow a purchase one may not reserve
// what the other pays. It ends nothing and takes nothing back.
func TestWhatIsPaidIsNotDeclined(t *testing.T) {
	f := &follower{c: &Client{cfg: Config{Store: elsewherePaid{t: t}}}, id: "request"}
	err := f.decline(t.Context(), Purchase{RequestID: "request", State: StateRequested}, "over the day's budget")
	if !errors.Is(err, ErrConflict) {
		t.Errorf("decline = %v", err)
	}
}
