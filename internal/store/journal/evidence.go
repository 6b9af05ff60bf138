package journal

import (
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

// isResult is true of what a tool gave: the tag of its requests and ".result",
// which a configuration gives to nothing else. Not of what agents say to each
// other, since a claim is no evidence for itself; not of what an agent asked a
// tool with, which it wrote itself; not of an error, which says nothing.
const isResult = "direction = 'Inbound' AND payload_tag GLOB '*.result' AND payload_tag NOT GLOB 'ye.*'"

// Holds reports whether a session, which is a thread with all below it, has
// what evidence names (M-10): an output by its digest, or a source by the name
// of the handler that gave one. Only the results of tools count.
func (tx Journal) Holds(session, ref string) (held bool, err error) {
	if session == "" || ref == "" {
		return false, nil
	}
	query, arg := "handler = ?", any(ref)
	if d, err := hashing.ParseDigest(ref); err == nil {
		query, arg = "payload_hash = ?", d[:]
	}

	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM journal WHERE "+query+" AND "+isResult+" AND "+inSession+")",
		arg, session, session, session).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look for evidence: %w", err)
	}
	return held, nil
}
