package cluster

import (
	"cmp"
	"context"
	"slices"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
)

// Status is where a gateway stands.
type Status struct {
	Node         string         `json:"node"`
	Epoch        string         `json:"epoch"`
	LastSeq      uint64         `json:"lastSeq"`      // of its outbox
	Published    uint64         `json:"publishedSeq"` // of those, in the stream
	Unaccepted   int            `json:"unaccepted"`   // deliveries that nobody has accepted
	Problem      string         `json:"problem,omitempty"`
	Peers        []PeerStatus   `json:"peers"`
	Agents       []AgentStatus  `json:"agents"`
	Capabilities []event.Index  `json:"capabilities"`
	Refusals     []RefusalCount `json:"refusals"`
	Incidents    []Incident     `json:"incidents"`
	Tasks        []store.Task   `json:"tasks"`
}

// PeerStatus is how far this gateway has read a peer, and the peer this one.
type PeerStatus struct {
	Node     string `json:"node"`
	Problem  string `json:"problem,omitempty"` // why it was not read the last time
	Epoch    string `json:"epoch"`
	LastSeq  uint64 `json:"lastSeq"`
	Lag      uint64 `json:"lag"`             // events of it that were not read yet
	GapTo    uint64 `json:"gapTo,omitempty"` // the last sequence of a gap that holds the cursor
	TheirSeq uint64 `json:"theirSeq"`        // what it says it has read of ours
	Counts   bool   `json:"counts"`          // its cursor holds compaction
}

// AgentStatus is an active agent.
type AgentStatus struct {
	Agent string `json:"agent"`
	Node  string `json:"node"`
}

// RefusalCount is how often something of a peer was refused.
type RefusalCount struct {
	Node  string `json:"node"`
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

// Incident is what a person may want to know.
type Incident struct {
	At     event.Time `json:"at"`
	Node   string     `json:"node"`
	What   string     `json:"what"`
	Detail string     `json:"detail"`
}

// maxShown bounds the lists of a status.
const maxShown = 50

// readStatus reads what the database says.
func readStatus(tx *store.Tx, node string) (s Status, err error) {
	place, err := store.Outbox{Tx: tx}.Place()
	if err != nil {
		return s, err
	}
	s.Node, s.Epoch, s.LastSeq, s.Published = node, place.Epoch, place.Next-1, place.Published
	if s.Unaccepted, err = (store.Outbox{Tx: tx}).Unaccepted(); err != nil {
		return s, err
	}

	view, err := readRegistry(tx, node)
	if err != nil {
		return s, err
	}
	s.Capabilities = view.indexes()
	for agent, homes := range view.homes {
		for _, home := range homes {
			s.Agents = append(s.Agents, AgentStatus{agent, home})
		}
	}
	slices.SortFunc(s.Agents, func(a, b AgentStatus) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Node, b.Node)) })

	inbox := store.Inbox{Tx: tx}
	cursors, err := inbox.Cursors()
	if err != nil {
		return s, err
	}
	for _, c := range cursors {
		s.Peers = append(s.Peers, PeerStatus{Node: c.Source, Epoch: c.Epoch, LastSeq: c.LastSeq, GapTo: c.GapTo})
	}
	refusals, err := inbox.Refusals()
	if err != nil {
		return s, err
	}
	for _, r := range refusals {
		s.Refusals = append(s.Refusals, RefusalCount{r.Source, r.Code, r.Count})
	}
	incidents, err := inbox.Incidents(maxShown)
	if err != nil {
		return s, err
	}
	for _, i := range incidents {
		s.Incidents = append(s.Incidents, Incident{event.At(i.At), i.Source, i.What, i.Detail})
	}
	s.Tasks, err = store.Tasks{Tx: tx}.Latest(maxShown)
	return s, err
}

// add puts what the readers and the peers say into a status.
func (s *Status) add(ctx context.Context, p *publisher, readers []*reader) {
	if err := p.lastFailure(); err != nil {
		s.Problem = err.Error()
	}
	for _, r := range readers {
		i := slices.IndexFunc(s.Peers, func(peer PeerStatus) bool { return peer.Node == r.source })
		if i < 0 {
			i, s.Peers = len(s.Peers), append(s.Peers, PeerStatus{Node: r.source})
		}
		peer := &s.Peers[i]
		last, err := r.state()
		if err != nil {
			peer.Problem = err.Error()
		}
		peer.Lag = max(last, peer.LastSeq) - peer.LastSeq
	}
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int { return cmp.Compare(a.Node, b.Node) })

	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	_, cursors, err := p.watermark(ctx)
	if err != nil && s.Problem == "" {
		s.Problem = err.Error()
	}
	for _, c := range cursors {
		for i := range s.Peers {
			if s.Peers[i].Node == c.ConsumerNodeID {
				s.Peers[i].TheirSeq, s.Peers[i].Counts = c.LastSeq, c.Epoch == s.Epoch && c.LeaseExpiresAt.After(p.Now())
			}
		}
	}
}
