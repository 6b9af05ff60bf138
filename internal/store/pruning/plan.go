package pruning

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/receipts"
)

// PartPlan is what would go of one part now.
type PartPlan struct {
	Part    string
	Jobs    int   // whose part goes
	Bytes   int64 // of contents; one that several jobs have counts for each
	Guarded int   // jobs that stay although their promise is over: open, unsettled, owed or disputed
}

// Plan says what would be pruned now, and changes nothing. It returns a *[ClockError] for
// a clock that is not to be believed, unless trustClock is the operator's word for it.
func (s Store) Plan(ctx context.Context, keep receipts.Retention, trustClock bool) (plan []PartPlan, err error) {
	err = s.db.View(ctx, func(tx *row.Tx) error {
		plan = nil
		if err := checkClock(tx); err != nil && !trustClock {
			return err
		}

		for _, part := range receipts.Parts() {
			p, err := planOf(tx, part, keep)
			if err != nil {
				return err
			}
			plan = append(plan, p)
		}
		return nil
	})
	return plan, err
}

func planOf(tx *row.Tx, part string, keep receipts.Retention) (PartPlan, error) {
	p := PartPlan{Part: part}
	of := keep.Of(part)
	if of == 0 {
		return p, nil
	}

	now := tx.Now().UnixMilli()
	err := tx.QueryRow(`WITH over AS (
			SELECT k.job, EXISTS (SELECT 1 FROM guarded_jobs g WHERE g.request_id = (SELECT r.request_id FROM requests r WHERE r.seq = k.job)) AS guarded
			FROM job_keeps k WHERE k.part = ?1 AND k.until_ms <= ?2 AND k.ended_ms + ?3 <= ?2)
		SELECT coalesce(sum(NOT guarded), 0), coalesce(sum(guarded), 0),
			coalesce(sum((SELECT sum(c.size) FROM job_contents j JOIN contents c ON c.digest = j.digest
				WHERE NOT o.guarded AND j.job = o.job AND j.part = ?1)), 0)
		FROM over o`, part, now, int64(max(of, receipts.Keep(keep.DisputeMs)))).Scan(&p.Jobs, &p.Guarded, &p.Bytes)
	if err != nil {
		return p, fmt.Errorf("count what may be pruned of %s: %w", part, err)
	}
	return p, nil
}
