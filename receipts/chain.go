package receipts

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

// Chains collects the receipts of many bundles and checks the sequence of each
// provider. It keeps 88 bytes for each receipt. It is not safe for concurrent use.
type Chains struct{ links map[string]*chain }

// chain holds the links of one provider, in pieces: one large slice would double its
// memory each time that it grows.
type chain [][]link

// piece is the number of links in a full piece.
const piece = 1024

func (c *chain) add(l link) {
	last := len(*c) - 1
	if last < 0 || len((*c)[last]) == piece {
		*c, last = append(*c, nil), last+1
	}
	(*c)[last] = append((*c)[last], l)
}

// sorted returns the links by number and hash, each once: a receipt may be in several
// bundles.
func (c *chain) sorted() []*link {
	var links []*link
	for _, p := range *c {
		for i := range p {
			links = append(links, &p[i])
		}
	}
	slices.SortFunc(links, func(a, b *link) int {
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), bytes.Compare(a.hash[:], b.hash[:]))
	})
	return slices.CompactFunc(links, func(a, b *link) bool { return *a == *b })
}

// link is one receipt's place in its provider's chain.
type link struct {
	sequence       int64
	hash, previous hashing.Digest // previous is zero for the first
	id             [16]byte       // receipt_id, which identifies the quote and its payment
}

// Add adds a report of [Verify]. A report without a proved provider's signature is
// ignored, because anybody could have made its receipt.
func (c *Chains) Add(r Report) {
	if r.Claim(ClaimSignature).State != Proved || r.ReceiptHash == nil {
		return
	}
	l := link{sequence: r.Sequence, hash: *r.ReceiptHash}
	if r.PreviousReceiptHash != nil {
		l.previous = *r.PreviousReceiptHash
	}
	if _, err := hex.Decode(l.id[:], []byte(strings.TrimPrefix(r.ReceiptID, receiptIDPrefix))); err != nil {
		return // no receipt has such an id
	}
	if c.links == nil {
		c.links = map[string]*chain{}
	}
	known := c.links[r.ProviderID]
	if known == nil {
		known = new(chain)
		c.links[strings.Clone(r.ProviderID)] = known // a copy: the report's string keeps the whole receipt in memory
	}

	known.add(l)
}

// Span is a range of sequence numbers, both ends included.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func (s Span) String() string {
	if s.From == s.To {
		return fmt.Sprint(s.From)
	}
	return fmt.Sprintf("%d to %d", s.From, s.To)
}

// ChainReport is what the receipts of one provider show together; see [Chains].
type ChainReport struct {
	ProviderID string `json:"provider_id"`
	// Before are the provider's earlier keys whose receipts are in it, oldest first.
	Before   []string `json:"before,omitempty"`
	Receipts int      `json:"receipts"` // different ones
	Last     int64    `json:"last"`     // the highest sequence
	// Missing are the numbers from 1 to Last without a receipt. This is no
	// contradiction, because only the provider has all of its receipts.
	Missing []Span `json:"missing"`
	// Faults are contradictions between receipts that the provider signed: two with
	// one number, one that does not continue the receipt before it, or two for one
	// payment.
	Faults []string `json:"faults"`
}

// Reports are in the order of the providers' ids. The keys that keys joins with one of
// also are one provider: their receipts are one chain, which has the id of the last key.
func (c *Chains) Reports(keys *KeyHistory, also ...string) []ChainReport {
	reports := []ChainReport{}
	successions, joined := c.successions(keys, also)
	for _, list := range successions {
		reports = append(reports, c.judgeSuccession(list))
	}
	for provider, links := range c.links {
		if !joined[provider] {
			reports = append(reports, judgeChain(provider, links.sorted()))
		}
	}

	slices.SortFunc(reports, func(a, b ChainReport) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return reports
}

// holderKey is one key of a provider that has had several, with receipts.
type holderKey struct{ provider, hex string }

// successions are the keys with receipts that were asked for, oldest first, each list up
// to a key that leads to no other of them; and all that are in a list.
func (c *Chains) successions(keys *KeyHistory, also []string) (lists [][]holderKey, joined map[string]bool) {
	var members []holderKey
	for provider := range c.links {
		hexKey, err := ParseNpub(provider)
		if err == nil && slices.ContainsFunc(also, func(key string) bool {
			asked, err := ParseKey(key)
			return err == nil && asked != "" && keys.Joins(asked, hexKey)
		}) {
			members = append(members, holderKey{provider, hexKey})
		}
	}
	slices.SortFunc(members, func(a, b holderKey) int { return strings.Compare(a.provider, b.provider) })

	joined = map[string]bool{}
	older := func(a, b holderKey) bool { return a != b && keys.Leads(a.hex, b.hex) && !keys.Leads(b.hex, a.hex) }
	for _, last := range members {
		if slices.ContainsFunc(members, func(m holderKey) bool { return older(last, m) }) {
			continue
		}
		list := slices.DeleteFunc(slices.Clone(members), func(m holderKey) bool { return !older(m, last) })
		slices.SortStableFunc(list, func(a, b holderKey) int {
			return cmp.Compare(keys.changes(b.hex, last.hex), keys.changes(a.hex, last.hex))
		})
		list = append(list, last)
		for _, m := range list {
			joined[m.provider] = true
		}
		lists = append(lists, list)
	}

	return lists, joined
}

// judgeSuccession judges the receipts of several keys as one chain. A key's numbers end
// before those of the next begin: after its end it signs nothing.
func (c *Chains) judgeSuccession(list []holderKey) ChainReport {
	var all chain
	var last int64
	var faults, before []string
	for i, k := range list {
		links := c.links[k.provider].sorted()
		if first := links[0].sequence; first <= last {
			faults = append(faults, fmt.Sprintf("receipt %d of %s is not behind receipt %d of the key before", first, k.provider, last))
		}
		last = max(last, links[len(links)-1].sequence)
		for _, l := range links {
			all.add(*l)
		}
		if i < len(list)-1 {
			before = append(before, k.provider)
		}
	}

	r := judgeChain(list[len(list)-1].provider, all.sorted())
	r.Before, r.Faults = before, append(r.Faults, faults...)
	return r
}

func judgeChain(provider string, links []*link) ChainReport {
	r := ChainReport{ProviderID: provider, Receipts: len(links), Missing: []Span{}, Faults: []string{}}
	var last, before []hashing.Digest // receipts with the number r.Last, and with the one before it
	last = append(last, hashing.Digest{})
	for _, l := range links {
		switch {
		case l.sequence == r.Last:
			r.Faults = append(r.Faults, fmt.Sprintf("two receipts have the number %d", l.sequence))
		case l.sequence == r.Last+1:
			before, last = last, nil
		default:
			r.Missing = append(r.Missing, Span{r.Last + 1, l.sequence - 1})
			before, last = nil, nil
		}

		if before != nil && !slices.Contains(before, l.previous) {
			r.Faults = append(r.Faults, fmt.Sprintf("receipt %d does not continue receipt %d", l.sequence, l.sequence-1))
		}
		r.Last, last = l.sequence, append(last, l.hash)
	}

	r.Faults = append(r.Faults, duplicatePayments(links)...)
	return r
}

// duplicatePayments lists receipts with different numbers for one payment, which must
// have only one. It reorders the links.
func duplicatePayments(links []*link) (faults []string) {
	slices.SortFunc(links, func(a, b *link) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.sequence, b.sequence))
	})
	for i := 1; i < len(links); i++ {
		if a, b := links[i-1], links[i]; a.id == b.id && a.sequence != b.sequence {
			faults = append(faults, fmt.Sprintf("receipts %d and %d are of one payment", a.sequence, b.sequence))
		}
	}
	return faults
}
