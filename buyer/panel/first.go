package panel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// decideFirst takes the first answer that can be paid. One that cannot, because its
// payment hash was seen before or a limit for its key does not hold it, is no
// answer: its member fails, and the others are waited for as if it had said nothing.
func (r *run) decideFirst(ctx context.Context, p Panel) (Panel, error) {
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
		var member *MemberError
		switch {
		case errors.As(err, &member):
			if err := r.turnAway(ctx, winners[0].member, member.Err.Error()); err != nil {
				return p, err
			}
		case err != nil:
			return p, err
		default:
			return r.c.cfg.Store.Panel(ctx, p.ID)
		}
	}
}

// turnAway fails a member before the panel has decided, and tells its provider.
func (r *run) turnAway(ctx context.Context, member Member, why string) error {
	r.say(member.Provider, buyer.Progress{At: time.Now().UTC(), Who: "buyer", What: "refused", Text: why})
	raw, err := r.cancellation(ctx, member)
	if err == nil {
		err = r.c.buyer.Drop(ctx, member.RequestID, why, raw)
	}
	if err != nil {
		return fmt.Errorf("turn a member away: %w", err)
	}
	return nil
}
