package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/receipts"
)

// JobRetention is how long a provider keeps what it has of a job, from the job's end. 0
// stands for a default.
type JobRetention struct {
	// DisputeWindow is the time in which nothing goes.
	DisputeWindow Period `yaml:"dispute_window"`
	Results       Period `yaml:"results"`
	Artifacts     Period `yaml:"artifacts"`
	Trajectories  Period `yaml:"trajectories"`
	Journals      Period `yaml:"journals"`
	Blobs         Period `yaml:"blobs"`
	Events        Period `yaml:"events"`
}

// Period is a time such as 36h or 30d, or forever.
type Period time.Duration

// Forever is the period without an end.
const Forever Period = -1

const day = 24 * time.Hour

// The defaults. With 1,000 jobs a day of 2 MB of artifacts each, a year's sales and what
// is kept of them take 33 GB in the store, and 14 GB on the blob server.
const (
	defaultDisputeWindow = Period(7 * day)
	defaultKeepLarge     = Period(7 * day)  // artifacts and blobs
	defaultKeepSmall     = Period(90 * day) // results and trajectories
	defaultKeepTraffic   = Period(30 * day) // journals and events
)

var errPeriod = errors.New("must be a time such as 36h or 30d, at least a millisecond and at most 36600 days, or forever; leave it out for the default")

// UnmarshalText reads a period.
func (p *Period) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = Forever
		return nil
	}

	of, err := time.ParseDuration(string(text))
	if days, inDays := strings.CutSuffix(string(text), "d"); inDays {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 16); err == nil {
			of = time.Duration(n) * day
		}
	}
	if err != nil || of < time.Millisecond || of.Milliseconds() > receipts.MaxKeepMs {
		return errPeriod
	}
	*p = Period(of)
	return nil
}

// String is the period as the configuration has it.
func (p Period) String() string {
	switch of := time.Duration(p); {
	case p == Forever:
		return "forever"
	case of >= day && of%day == 0:
		return fmt.Sprintf("%dd", of/day)
	default:
		return of.String()
	}
}

// keep is the period as a quote has it.
func (p Period) keep() receipts.Keep {
	if p == Forever {
		return 0
	}
	return receipts.Keep(time.Duration(p).Milliseconds())
}

// orDefault fills in what the file leaves out. A part's default is never shorter than
// the dispute window.
func (r JobRetention) orDefault() JobRetention {
	r.DisputeWindow = cmp.Or(r.DisputeWindow, defaultDisputeWindow)
	for _, part := range []struct {
		keep *Period
		or   Period
	}{
		{&r.Results, defaultKeepSmall},
		{&r.Artifacts, defaultKeepLarge},
		{&r.Trajectories, defaultKeepSmall},
		{&r.Journals, defaultKeepTraffic},
		{&r.Blobs, defaultKeepLarge},
		{&r.Events, defaultKeepTraffic},
	} {
		*part.keep = cmp.Or(*part.keep, max(part.or, r.DisputeWindow))
	}
	return r
}

// check refuses a part that would go within the dispute window.
func (r JobRetention) check() (all []*Problem) {
	r = r.orDefault()
	if r.DisputeWindow == Forever {
		return []*Problem{Mistake("$.retention.dispute_window", "must have an end; to keep everything, give each part forever")}
	}

	for _, part := range []struct {
		name string
		keep Period
	}{
		{"results", r.Results},
		{"artifacts", r.Artifacts},
		{"trajectories", r.Trajectories},
		{"journals", r.Journals},
		{"blobs", r.Blobs},
		{"events", r.Events},
	} {
		if part.keep != Forever && part.keep < r.DisputeWindow {
			all = append(all, Mistake("$.retention."+part.name, fmt.Sprintf("%s is shorter than the dispute window, %s: a buyer could no longer be answered", part.keep, r.DisputeWindow)))
		}
	}
	return all
}

// Kept is what the provider announces and promises in its quotes.
func (r JobRetention) Kept() receipts.Retention {
	r = r.orDefault()
	return receipts.Retention{
		DisputeMs: time.Duration(r.DisputeWindow).Milliseconds(), ResultsMs: r.Results.keep(), ArtifactsMs: r.Artifacts.keep(),
		TrajectoriesMs: r.Trajectories.keep(), JournalsMs: r.Journals.keep(), BlobsMs: r.Blobs.keep(), EventsMs: r.Events.keep(),
	}
}
