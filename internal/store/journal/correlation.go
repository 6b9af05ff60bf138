package journal

import "fmt"

// NameKind says where a name of a job comes from (M-2). The job's first name is
// its request id, which every other is kept beside.
type NameKind string

// The kinds of names. correlation_id is also the corrId of agent messages and
// the conversation id; directive_id is the causation id of calls.
const (
	NameJobHash     NameKind = "job_hash"
	NameTask        NameKind = "task_id"
	NameCorrelation NameKind = "correlation_id"
	NameThread      NameKind = "thread_id"
	NameDirective   NameKind = "directive_id"
	NameCall        NameKind = "call_id"
	NameSession     NameKind = "session_id"
	NamePaymentHash NameKind = "payment_hash"
	NameResultEvent NameKind = "result_event_id"
	NameReceipt     NameKind = "receipt_id"
	MaxJobs                  = 100
)

// Names are all names of one job, in the order they were given.
type Names struct {
	RequestID string
	Names     map[NameKind][]string
}

// Correlate gives the job a further name, which no other table holds: the view
// job_names is all of them. Giving it again is fine.
func (tx Journal) Correlate(requestID string, kind NameKind, value string) error {
	_, err := tx.Exec("INSERT INTO correlation(request_id, kind, value, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		requestID, string(kind), value, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("correlate %s: %w", kind, err)
	}
	return nil
}

// Lookup finds the jobs that name means, whatever kind of name it is: a job
// hash may mean several. It returns no error for none.
func (tx Journal) Lookup(name string) ([]Names, error) {
	ids, err := tx.Strings(`SELECT request_id FROM job_names WHERE value = ?1 UNION SELECT request_id FROM job_names WHERE request_id = ?1
		ORDER BY request_id LIMIT ?2`, name, MaxJobs)
	if err != nil {
		return nil, fmt.Errorf("look up name: %w", err)
	}

	var list []Names
	for _, id := range ids {
		n, err := tx.NamesOf(id)
		if err != nil {
			return nil, fmt.Errorf("look up name: %w", err)
		}
		list = append(list, n)
	}

	return list, nil
}

// NamesOf are all names of one job.
func (tx Journal) NamesOf(requestID string) (Names, error) {
	n := Names{RequestID: requestID, Names: map[NameKind][]string{}}
	rows, err := tx.Query("SELECT kind, value FROM job_names WHERE request_id = ? GROUP BY kind, value ORDER BY kind, min(at_ms), value", requestID)
	if err != nil {
		return n, err
	}
	defer rows.Close()

	for rows.Next() {
		var kind NameKind
		var value string
		if err := rows.Scan(&kind, &value); err != nil {
			return n, err
		}
		n.Names[kind] = append(n.Names[kind], value)
	}

	return n, rows.Err()
}
