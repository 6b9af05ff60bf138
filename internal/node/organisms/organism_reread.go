package organisms

import (
	"context"
	"errors"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// Serve reads the organism again whenever it is asked to, until ctx ends. Threads
// that run stay in the one they began in; one that cannot be used changes nothing.
func (s *Runtime) Serve(ctx context.Context, asked <-chan os.Signal, say func(format string, args ...any), build func(context.Context) error) error {
	for {
		select {
		case <-asked:
			s.reread(ctx, say, build)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Runtime) reread(ctx context.Context, say func(format string, args ...any), build func(context.Context) error) {
	if s.rebuild == nil {
		say("there is no organism to read again; everything else of the configuration is read when the node starts")
		return
	}
	if err := build(ctx); err != nil {
		s.log.Error("the organism cannot be read again: nothing changes", "err", err)
		if coded := (*advice.Error)(nil); errors.As(err, &coded) && coded.Hint != "" {
			say("for the organism to be read again: %s", coded.Hint)
		}
		return
	}

	l := s.built.Load()
	say("the organism %s was read again: threads that begin go by it (%s), those that run end by the one before", l.Name, l.Hash)
}
