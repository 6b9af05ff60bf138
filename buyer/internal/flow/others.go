package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// patience is when it is looked at whether the request is being served; never if
// nobody else could be asked.
func (f *Follower) patience() <-chan time.Time {
	f.askedAt = time.Now()
	if f.Others == nil {
		return nil
	}
	switch left := f.Others.Left(); {
	case left == 0:
		return nil
	case left < 0:
		return time.After(f.AskTimeout / 2)
	}
	return time.After(f.AskTimeout)
}

// unserved looks for others once half of AskTimeout has passed without an answer,
// and ends the request once all of it has, if there are any.
func (f *Follower) unserved(ctx context.Context) (again <-chan time.Time, err error) {
	p, err := f.view(ctx)
	if err != nil || f.heard.serving || p.State != purchase.StateRequested {
		return nil, err
	}

	switch left := f.Others.Left(); {
	case left < 0:
		f.g.Go(func() error { // while the provider may still answer
			keep, err := f.Others.Look(ctx, f.AskTimeout/2)
			if err != nil {
				f.Log.Warn("no other provider can be looked for", "request", f.id, "err", err)
				return nil
			}
			f.found <- keep
			return nil
		})
		return nil, nil
	case left == 0:
		return nil, nil
	case len(f.events) > 0:
		return time.After(time.Millisecond), nil // its answer is among them, perhaps
	}
	return nil, f.decline(ctx, p, purchase.CodeNoAnswer, fmt.Sprintf("the provider did not answer in %v", time.Since(f.askedAt).Round(100*time.Millisecond)))
}
