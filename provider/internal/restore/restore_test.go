package restore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
)

// TestNoRelayIsSaidLessAndLess: while no relay answers, an operator hears of it
// at growing distances, and then that it is over.
func TestNoRelayIsSaidLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		relays := &mute{left: 100}
		c := New(Config{Query: relays.Query, Store: noJobs{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err := c.Serve(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "nothing is sold before"); n != 7 { // 1, 2, 4, ... 64
			t.Errorf("%d warnings of 100 attempts:\n%s", n, &log)
		}
		if strings.Count(log.String(), "selling begins") != 1 {
			t.Errorf("its end is not said:\n%s", &log)
		}
	})
}

// mute is a market whose relays do not answer at first.
type mute struct{ left int }

func (m *mute) Query(context.Context, nostr.Filter) ([]nostr.Event, error) {
	if m.left > 0 {
		m.left--
		return nil, errors.New("relay is not connected")
	}
	return nil, nil
}

type noJobs struct{ Store }

func (noJobs) OpenJobs(context.Context) ([]string, error) { return nil, nil }
func (noJobs) Debts(context.Context) ([]job.Debt, error)  { return nil, nil }
