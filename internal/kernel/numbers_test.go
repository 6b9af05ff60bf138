package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/provider"
)

// oldJobs is what a node had written before jobs and events went by numbers: a job
// at work, one that has ended and a refusal, whose rows lie between each other's.
const oldJobs = `
INSERT INTO requests(request_id, buyer, at_ms) VALUES (:ended, :buyer, 1), (:refused, :buyer, 2), (:works, :buyer, 3);
INSERT INTO jobs(request_id, kind, schema_id, job_hash, request, input, relays, mode, price_msats, quote, quote_hash, nonce,
	expires_ms, policy_id, added_ms)
SELECT request_id, 5050, 's', CAST(substr(request_id, 1, 32) AS BLOB), x'00', x'00', '[]', 'free', 0, x'00',
	CAST(substr(request_id, 1, 32) AS BLOB), x'00', 9, zeroblob(32), at_ms FROM requests WHERE request_id <> :refused;
INSERT INTO threads(thread_id, parent, profile, created_ms) VALUES ('root', NULL, 'p', 1), ('root.job[works]', 'root', 'p', 5);
INSERT INTO thread_states(thread_id, state, at_ms) VALUES ('root', 'Active', 1), ('root.job[works]', 'Active', 5);
INSERT INTO directives(id, idempotency_key, approved_by, request_id, created_ms) VALUES ('dir_works', 'k', 'policy', :works, 5);
INSERT INTO job_orders(request_id, directive_id, thread_id) VALUES (:works, 'dir_works', 'root.job[works]');
INSERT INTO job_runs(request_id, run, at_ms) VALUES (:works, 1, 5);
INSERT INTO correlation(request_id, kind, value, at_ms) VALUES (:works, 'thread_id', 'root.job[works]', 5),
	(:works, 'directive_id', 'dir_works', 5), (:works, 'call_id', 'call', 6);
INSERT INTO job_states(request_id, state, code, detail, at_ms) VALUES (:ended, 'quoted', '', '', 1), (:refused, 'refused', 'bid_too_low', 'x', 2),
	(:works, 'quoted', '', '', 3), (:ended, 'running', '', '', 4), (:works, 'running', '', '', 5), (:ended, 'failed', 'canceled', 'why', 7);
INSERT INTO outbox(event_id, event, request_id, purpose, required_oks, created_ms) VALUES (:first, CAST('{"kind":1}' AS BLOB), :ended, '', 1, 1),
	(:second, CAST('{"kind":1}' AS BLOB), :works, '', 1, 5);
INSERT INTO outbox_relays(event_id, relay) VALUES (:first, 'wss://a'), (:second, 'wss://b'), (:second, 'wss://a');
INSERT INTO outbox_acks(event_id, relay, ok, message, at_ms) VALUES (:second, 'wss://a', 0, 'later', 6), (:first, 'wss://a', 1, '', 6),
	(:second, 'wss://a', 1, '', 7);
INSERT INTO outbox_open(created_ms, seq) VALUES (5, 2);`

// openOld is a database that was closed before the step, opened again.
func openOld(t *testing.T, step, rows string) *testKernel {
	t.Helper()
	k := &testKernel{dir: filepath.Join(t.TempDir(), "node"), now: start}
	must(t, os.MkdirAll(k.dir, 0o700))
	at := slices.Index(migrations(), step)
	if at < 0 {
		t.Fatal("there is no such step")
	}
	old, err := sqlite.Open(t.Context(), filepath.Join(k.dir, FileName), sqlite.Options{Migrations: migrations()[:at]})
	must(t, err)
	must(t, old.Update(t.Context(), func(tx *sqlite.Tx) error { _, err := tx.Exec(rows); return err }))
	must(t, old.Close())
	k.reopen(t)
	t.Cleanup(func() { must(t, k.Close()) })
	return k
}

// TestAnOldDatabaseGoesOnByNumbers: all that it says of its jobs and events it
// still says, and they go on where they stood.
func TestAnOldDatabaseGoesOnByNumbers(t *testing.T) {
	ended, refused, works, first, second := hexID("ended"), hexID("refused"), hexID("works"), hexID("first"), hexID("second")
	ids := []string{":ended", ended, ":refused", refused, ":works", works, ":first", first, ":second", second, ":buyer", hexID("buyer")}
	for i := 1; i < len(ids); i += 2 {
		ids[i] = "'" + ids[i] + "'"
	}
	k := openOld(t, namesSQL, strings.NewReplacer(ids...).Replace(oldJobs))
	s := k.ProviderStore("p")
	for id, want := range map[string]provider.Job{
		ended:   {State: provider.StateFailed, Reason: provider.Reason{Code: "canceled", Detail: "why"}, StateAt: time.UnixMilli(7).UTC()},
		refused: {State: provider.StateRefused, Reason: provider.Reason{Code: "bid_too_low", Detail: "x"}, StateAt: time.UnixMilli(2).UTC()},
		works:   {State: provider.StateRunning, StateAt: time.UnixMilli(5).UTC()},
	} {
		got, err := s.Job(t.Context(), id)
		if err != nil || got.State != want.State || got.Reason != want.Reason || !got.StateAt.Equal(want.StateAt) {
			t.Errorf("job %s %+v at %v, %v", got.State, got.Reason, got.StateAt, err)
		}
	}
	if ids, err := s.OpenJobs(t.Context()); err != nil || !slices.Equal(ids, []string{works}) {
		t.Errorf("open: %v, %v", ids, err)
	}
	checkOldNames(t, k, works)
	checkOldEvents(t, k, works, second)

	must(t, s.Close(t.Context(), works, provider.StateFailed, provider.Reason{Code: "canceled"}, nil,
		provider.OutEvent{EventID: hexID("third"), Event: []byte("{}"), RequestID: works, Relays: []string{"wss://b"}}))
	if state := stateOf(t, k, works); state != "failed" {
		t.Errorf("the job that was at work is %s", state)
	}
	if err := s.Close(t.Context(), ended, provider.StateCanceled, provider.Reason{}, nil); err == nil {
		t.Error("a job ends twice")
	}
	must(t, s.AddAcks(t.Context(), provider.Ack{EventID: hexID("third"), Relay: "wss://b", OK: true}))
	if acks, err := s.Acks(t.Context(), works); err != nil || len(acks) != 4 || acks[3].EventID != hexID("third") {
		t.Errorf("answers to old and new events of one job: %v, %v", acks, err)
	}
	k.now = time.UnixMilli(3).Add(provider.RefusedFor)
	must(t, s.Refuse(t.Context(), hexID("another"), hexID("buyer"), provider.Reason{}))
	if _, err := s.Job(t.Context(), refused); err == nil {
		t.Error("the old refusal is kept for ever")
	}
	checkProvider(t, k)
}

func checkOldNames(t *testing.T, k *testKernel, works string) {
	t.Helper()
	found, err := k.Trace(t.Context(), "dir_works")
	if err != nil || len(found) != 1 {
		t.Fatalf("trace: %v, %v", found, err)
	}
	names := found[0].Names.Names
	if len(names[NameJobHash]) != 1 {
		t.Errorf("hashes %v", names[NameJobHash])
	}
	delete(names, NameJobHash)
	want := map[NameKind][]string{
		NameThread: {"root.job[works]"}, NameDirective: {"dir_works"}, NameCall: {"call"}, NameCorrelation: {works},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, l := range found[0].Lines {
		kinds = append(kinds, l.Kind)
	}
	if want := []string{"state", "state", "run", "event", "relay", "relay"}; !slices.Equal(kinds, want) {
		t.Errorf("lines %v, want %v", kinds, want)
	}
}

func checkOldEvents(t *testing.T, k *testKernel, works, second string) {
	t.Helper()
	s := k.ProviderStore("p")
	pending := func() (list []PendingEvent) {
		k.view(t, func(tx *Tx) (err error) { list, err = tx.Pending(time.Time{}, 10); return err })
		return list
	}
	want := []PendingEvent{{
		OutEvent:  OutEvent{EventID: second, Event: []byte(`{"kind":1}`), RequestID: works, Relays: []string{"wss://a", "wss://b"}, Required: 1},
		Confirmed: []string{"wss://a"}, Attempts: 2, QueuedAt: time.UnixMilli(5).UTC(),
	}}
	if diff := cmp.Diff(want, pending()); diff != "" {
		t.Error(diff)
	}
	acks, err := s.Acks(t.Context(), works)
	if err != nil || len(acks) != 2 || acks[0].OK || acks[0].Message != "later" || !acks[1].OK {
		t.Errorf("answers %v, %v", acks, err)
	}
	must(t, s.AddAcks(t.Context(), provider.Ack{EventID: second, Relay: "wss://b", OK: true}))
	if left := pending(); len(left) != 0 {
		t.Errorf("still open: %v", left)
	}
}
