package sales

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// Policy is a policy manifest that the provider has sold under.
type Policy struct {
	ID      hashing.Digest // of its bytes
	FirstAt time.Time
	LastAt  time.Time // when a life of the provider last began under it
	Jobs    int64     // admitted under it
}

// UsePolicy stores the manifest that the provider sells under from now on. Its
// bytes stay for good.
func (s *Store) UsePolicy(ctx context.Context, manifest []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		d, err := tx.PutContent(manifest)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO policy_runs(digest, at_ms) VALUES (?, ?)", d[:], tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record policy: %w", err)
		}
		return nil
	})
}

// Policies lists the manifests by their last use, newest first.
func (s *Store) Policies(ctx context.Context) (list []Policy, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		rows, err := tx.Query(`SELECT r.digest, min(r.at_ms), max(r.at_ms),
				(SELECT count(*) FROM jobs j WHERE j.policy_id = r.digest)
			FROM policy_runs r GROUP BY r.digest ORDER BY max(r.seq) DESC`)
		if err != nil {
			return fmt.Errorf("list policies: %w", err)
		}
		defer rows.Close()

		for rows.Next() {
			var p Policy
			var first, last int64
			if err := rows.Scan(row.Into(&p.ID), &first, &last, &p.Jobs); err != nil {
				return fmt.Errorf("list policies: %w", err)
			}
			p.FirstAt, p.LastAt = row.FromMs(first), row.FromMs(last)
			list = append(list, p)
		}

		return rows.Err()
	})
	return list, err
}
