package sqlite

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// TestALostGroupFailsEveryMember: the transaction ends under the feet of the
// leader, or of a member between others, as when a disk is full. Nobody is told
// that a write is durable, and none is.
func TestALostGroupFailsEveryMember(t *testing.T) {
	const members = 8
	for name, breaks := range map[string]int{"leader": 0, "member": members / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := open(t, temp(t), Options{})
				var (
					wg  sync.WaitGroup
					ran int // writes so far; only who has the connection counts
				)
				write := func(tx *Tx) error {
					err := insert(strconv.Itoa(ran))(tx)
					if ran == breaks {
						err = errors.Join(err, db.writer.exec("ROLLBACK"))
					}
					ran++
					return err
				}
				err := db.Update(t.Context(), func(tx *Tx) error {
					for range members {
						wg.Go(func() {
							err := db.Update(t.Context(), write)
							if !errors.Is(err, ErrCommit) && !errors.Is(err, ErrReadOnly) {
								t.Errorf("a member: %v", err)
							}
						})
					}
					synctest.Wait() // all of them are in the queue
					return write(tx)
				})
				wg.Wait()
				if !errors.Is(err, ErrCommit) || ran != breaks+1 || len(values(t, db)) != 0 {
					t.Errorf("the leader: %v; %d ran; rows %v", err, ran, values(t, db))
				}
			})
		})
	}
}
