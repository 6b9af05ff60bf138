package cli

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
)

type providerRetireCmd struct{}

// Run takes the announcement back.
func (providerRetireCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	// A provider that runs would announce itself again: its database is in use.
	k, err := kernel.Open(ctx, c.dataDir("provider"), kernel.Options{Logger: s.log})
	if err != nil {
		return hinted(err, "stop lightwork provider run first: it would announce itself again")
	}
	open, err := k.ProviderStore(jobsProfile).OpenJobs(ctx)
	if err = firstError(err, k.Close()); err != nil {
		return err
	}
	if len(open) > 0 {
		fmt.Fprintf(s.err, "lightwork: %s not finished; provider run once more ends what can be ended\n", count(int64(len(open)), "job"))
	}
	key, err := openSigner(c, "provider", s.log)
	if err != nil {
		return err
	}
	m, err := newMarket(c, key, len(c.Relays), s.log)
	if err != nil {
		return err
	}
	serve, stop := context.WithCancel(ctx)
	var pool errgroup.Group
	pool.Go(func() error { return m.Serve(serve) })
	pool.Go(func() error { return key.serve(serve) })
	acks, err := provider.Retire(ctx, key, m, "")
	stop()
	if err = firstError(err, pool.Wait()); err != nil {
		return err
	}
	taken := 0
	for _, a := range acks {
		if a.OK {
			taken++
		}
		fmt.Fprintf(s.out, "%s  %s\n", printable(a.Relay), printable(deletion(a.OK, a.Message)))
	}
	if taken < len(acks) {
		return hinted(errors.New("not every relay has deleted the announcement"), "run it again later; a relay may also ignore deletions")
	}
	return nil
}

func deletion(ok bool, message string) string {
	if ok {
		return "announcement deleted"
	}
	return "refused: " + message
}
