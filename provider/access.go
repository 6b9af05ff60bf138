package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/receipts"
)

// Admission is whether new jobs are taken. Jobs that are open go on in any case.
type Admission string

// The states of admission.
const (
	AdmissionOpen     Admission = "open"
	AdmissionPaused   Admission = "paused"
	AdmissionDraining Admission = "draining" // paused; Serve ends with the last open job
)

// admissionLook is how often a change of admission is looked for.
const admissionLook = time.Second

// Access says who may buy, x-only keys in hex.
type Access struct {
	Allow []string // if any, or with Trust, only these
	Deny  []string // not even if allowed or trusted
	// Trust lets in whom others follow, beside Allow.
	Trust Trust
	// Of are the keys whose follows count; none is the provider's own.
	Of []string
}

func (p *Provider) access(ctx context.Context, key string) Reason {
	a := p.cfg.Access
	switch {
	case slices.Contains(a.Deny, key):
		return because(CodeNotAllowed, "this key is not served here; ask another provider")
	case len(a.Allow) == 0 && a.Trust == TrustNobody, slices.Contains(a.Allow, key), p.circle.has(ctx, key):
		return Reason{}
	case a.Trust != TrustNobody:
		return because(CodeNotAllowed, "only keys are served here that ours follows, or those that it trusts; ask the provider, or another one")
	}
	return because(CodeNotAllowed, "only known keys are served here; ask the provider, or another one")
}

// admission is what the operator says, and paused while results could not be
// delivered.
func (p *Provider) admission() Admission {
	said := AdmissionOpen
	if p.cfg.Admission != nil {
		said = p.cfg.Admission()
	}
	if p.paused.Load() || said == AdmissionOpen && p.pub.CannotUpload() {
		return AdmissionPaused
	}
	return said
}

// withdrawn are the offers whose jobs cannot be done now, by job type.
func (p *Provider) withdrawn() []string {
	var ids []string
	for _, o := range p.cfg.Offers {
		if p.cfg.Withdrawn != nil && p.cfg.Withdrawn(o.SchemaID) != "" {
			ids = append(ids, o.SchemaID)
		}
	}
	return ids
}

// mayBuy is what is decided before the request itself is looked at.
func (p *Provider) mayBuy(ctx context.Context, ev nostr.Event) Reason {
	if p.admission() != AdmissionOpen {
		return because(CodePaused, "no new jobs are taken now; ask again later, or another provider")
	}
	return p.access(ctx, ev.PubKey)
}

// freeEnough bounds what is given away: work has to be shown for it.
func (p *Provider) freeEnough(ev nostr.Event, mode receipts.Mode) Reason {
	if mode != receipts.ModeFree {
		return Reason{}
	}
	if bits := p.limits.FreePoW; nip13.CommittedDifficulty(&ev) < bits {
		return because(CodeProofOfWork, fmt.Sprintf("a free job needs %d bits of proof of work, committed to in a nonce tag (NIP-13)", bits))
	}
	return Reason{}
}
