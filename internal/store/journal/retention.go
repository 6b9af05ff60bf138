package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// Retention is how long a journal entry stays (AP-7.1): RetainForever,
// PruneOnDelivery or RetainDays(n).
type Retention string

// Retention policies without a number.
const (
	RetainForever   Retention = "retain_forever"
	PruneOnDelivery Retention = "prune_on_delivery"
)

// MaxRetainDays keeps an expiry inside what a time can say.
const MaxRetainDays = 100_000

// RetainDays keeps an entry for n days of 24 hours.
func RetainDays(n int) Retention { return Retention("retain_days(" + strconv.Itoa(n) + ")") }

// ParseRetention reads a policy's text form, for example "retain_days(30)".
func ParseRetention(s string) (Retention, error) {
	r := Retention(s)
	if r == RetainForever || r == PruneOnDelivery {
		return r, nil
	}
	if n := r.Days(); n == 0 || RetainDays(n) != r {
		return "", fmt.Errorf("retention %q: %w", s, row.ErrInvalid)
	}
	return r, nil
}

// RetentionOf reads a profile's policy. ErrInvalid if it is none.
func RetentionOf(r pipeline.Retention) (Retention, error) {
	if r.Policy == pipeline.RetainDays {
		return ParseRetention(string(RetainDays(r.Days)))
	}
	return ParseRetention(string(r.Policy))
}

// Days is the number of RetainDays, 0 if r is something else.
func (r Retention) Days() int {
	s, ok := strings.CutPrefix(string(r), "retain_days(")
	s, ok2 := strings.CutSuffix(s, ")")
	n, err := strconv.Atoi(s)
	if !ok || !ok2 || err != nil || n < 1 || n > MaxRetainDays {
		return 0
	}
	return n
}

// ErrRetention: a policy keeps a paid job's journal for too short a time.
var ErrRetention = errors.New("journal is not retained for the dispute window")

// CheckPaid refuses, with ErrRetention, a policy for paid jobs that keeps less
// than the dispute window (K-40). The days of an entry count from when it was
// written, so window includes the longest that a job may take.
// prune_on_delivery keeps nothing and is never enough.
func (r Retention) CheckPaid(window time.Duration) error {
	if _, err := ParseRetention(string(r)); err != nil {
		return err
	}
	if r == RetainForever {
		return nil
	}
	if r == PruneOnDelivery || time.Duration(r.Days())*24*time.Hour < window {
		return fmt.Errorf("%s, dispute window %s: %w", r, window, ErrRetention)
	}
	return nil
}
