package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/store"
)

// Query is one that people and jobs ask for again and again.
type Query struct {
	Text    string
	Args    int
	Ordered bool // it ends after a few rows of a table in its order
}

// CheckPlans makes sure that the queries look at no row that they do not give, however
// many there are; small are the steps that may go through all rows of what stays small.
func (k *DB) CheckPlans(t *testing.T, small []string, queries ...Query) {
	t.Helper()
	for _, q := range queries {
		for _, step := range k.plan(t, q.Text, []any{1, 2, 3}[:q.Args]...) {
			scan := strings.HasPrefix(step, "SCAN ") && !slices.Contains(small, step)
			if scan && !q.Ordered || strings.Contains(step, "TEMP B-TREE") && q.Ordered {
				t.Errorf("%.60s: %s", q.Text, step)
			}
		}
	}
}

func (k *DB) plan(t *testing.T, query string, args ...any) (steps []string) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) error {
		rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			steps = append(steps, step)
		}

		return rows.Err()
	})
	return steps
}
