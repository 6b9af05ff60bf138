package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// decideFirst takes the first answer that can be paid. One that cannot, because its
// payment hash was seen before or a limit for its key does not hold it, is no
// answer: its seat fails, and the others are waited for as if it had said nothing.
func (r *panelRun) decideFirst(ctx context.Context, p Panel) (Panel, error) {
	for {
		answers, err := r.gather(ctx, p)
		if err != nil {
			return p, err
		}
		d, winners := nobody(), []answer(nil)
		if len(answers) > 0 {
			d, winners = Decision{Outcome: OutcomeFirst, Reason: "the first valid answer"}, answers[:1]
		}
		d.At = time.Now().UTC()
		err = r.store(ctx, p, d, winners)
		var seat *SeatError
		switch {
		case errors.As(err, &seat):
			if err := r.turnAway(ctx, winners[0].seat, seat.Err.Error()); err != nil {
				return p, err
			}
		case err != nil:
			return p, err
		default:
			return r.c.cfg.Store.Panel(ctx, p.ID)
		}
	}
}

// turnAway fails a seat before the panel has decided, and tells its provider.
func (r *panelRun) turnAway(ctx context.Context, seat Seat, why string) error {
	r.say(seat.Provider, Progress{At: time.Now().UTC(), Who: "buyer", What: "refused", Text: why})
	_, raw, err := r.cancellation(ctx, seat)
	if err == nil {
		err = r.c.cfg.Store.SetCancel(ctx, seat.RequestID, raw)
	}
	if err == nil {
		err = r.c.cfg.Store.CloseUnpaid(ctx, seat.RequestID, StateFailed, why)
	}
	if err != nil {
		return fmt.Errorf("turn seat away: %w", err)
	}
	return r.dismiss(ctx, seat)
}
