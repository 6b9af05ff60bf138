package receipts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

func (r recipe) makeResult(m *made, job *schemas.Request) {
	out := map[string]any{
		"env_info": map[string]any{"image_digest": "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		"runs": []any{
			map[string]any{"cmd": "make check", "exit_code": 0, "duration_ms": 412, "stdout_sha256": digest(buildLog), "stderr_sha256": digest(nil)},
			map[string]any{"cmd": "cat <notes> & exit", "exit_code": 0, "duration_ms": 3, "stdout_sha256": digest(nil), "stderr_sha256": digest(nil)},
		},
		"artifacts": []any{
			map[string]any{"path": "out/build.log", "sha256": digest(buildLog), "size_bytes": len(buildLog)},
			map[string]any{"path": "PR_SUMMARY.md", "sha256": digest(summaryText), "size_bytes": len(summaryText)},
		},
		"status":     "success",
		"provenance": map[string]any{"model_id": "sandbox", "provider_pubkey": xOnly(r.provider)},
	}
	apply(r.output, out)
	m.bundle.Result = must(hashing.CanonicalValue(out))
	m.bundle.PRSummary = summaryText
	for _, a := range [][]byte{buildLog, summaryText} {
		m.bundle.Artifacts[hashing.Bytes(a).Hex()] = a
	}
	m.terms = receipts.ResultTerms{
		SchemaID: string(job.SchemaID), JobHash: job.JobHash, OutputHash: hashing.Bytes(m.bundle.Result),
		PlanHash: hashing.Bytes([]byte("plan")), QuoteHash: hashing.Bytes(m.bundle.Quote),
		PolicyBundleID: hashing.Bytes([]byte(policyDoc)), SessionID: "session-1",
	}
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	if result, err := schema.ParseResult(m.bundle.Result); err == nil {
		agreement := must(job.AgreementHash(result))
		m.terms.AgreementHash = &agreement
	}
	apply(r.delivered, &m.terms)
	r.makeSession(m, job)
	apply(r.recorded, &m.terms)
	m.result = receipts.Event{Kind: 6050, CreatedAt: delivered, Content: string(m.bundle.Result)}
	if r.seal {
		r.makeSeal(m)
	}
	m.result.Tags = append([][]string{
		{"request", string(m.request.JSON())},
		{"e", m.request.ID},
		{"p", xOnly(r.buyer)},
		{"amount", fmt.Sprint(price)},
		domain.Result.Tag(),
	}, m.terms.Tags()...)
	apply(r.resultEvent, &m.result)
	sign(&m.result, r.provider)
	m.bundle.ResultEvent = m.result.JSON()
}

// makeSeal commits to the result, with a salt that is the same every time.
func (r recipe) makeSeal(m *made) {
	list := []receipts.SealedContent{
		{Role: receipts.RoleResult, Digest: hashing.Bytes(m.bundle.Result), Size: int64(len(m.bundle.Result))},
		{Role: receipts.RoleReplay, Digest: hashing.Bytes(m.bundle.Replay), Size: int64(len(m.bundle.Replay))},
	}
	for _, hash := range slices.Sorted(maps.Keys(m.bundle.Artifacts)) {
		a := m.bundle.Artifacts[hash]
		list = append(list, receipts.SealedContent{Role: receipts.RoleArtifact, Digest: hashing.Bytes(a), Size: int64(len(a))})
	}
	s := receipts.NewSeal(m.terms, list)
	s.Salt = hashing.Bytes([]byte("lightwork test salt")).Hex()
	apply(r.sealed, &s)
	m.bundle.Seal = rewritten(r.sealDoc, must(s.Canonical()))
	sum := hashing.Bytes(m.bundle.Seal)
	m.terms.Commitment = &sum
	m.result.Content = ""
}

func (r recipe) makeSession(m *made, job *schemas.Request) {
	at := func(s int64) replay.Time { return replay.At(time.Unix(s, 0)) }
	zero := int64(0)
	lines := []replay.Line{
		&replay.ReplayHeader{Producer: "lightwork@test", CreatedAt: at(accepted)},
		&replay.SessionStart{T: at(accepted), SessionID: m.terms.SessionID, PolicyBundleID: m.terms.PolicyBundleID.String()},
		&replay.PlanStart{T: at(accepted), PlanHash: m.terms.PlanHash, StepCount: 2},
	}
	status := map[receipts.Mode]string{receipts.ModeHold: replay.PaymentHeld, receipts.ModePrepay: replay.PaymentReceived}[r.mode]
	if status != "" {
		lines = append(lines, &replay.Payment{
			T: at(accepted), Rail: string(r.network.Rail()), AssetID: payments.AssetID(r.network),
			AmountMsats: price, JobHash: &job.JobHash, Status: status,
		})
	}
	lines = append(lines,
		&replay.ToolCall{T: at(accepted + 1), ID: "tc_0", Tool: "fetch", Params: json.RawMessage(`{"what":"repo"}`), StepID: "step-1"},
		&replay.ToolResult{T: at(accepted + 1), ID: "tc_0", OutputHash: hashing.Bytes([]byte("repo")), StepUtility: 1, LatencyMs: 40},
		&replay.StepComplete{T: at(accepted + 1), StepID: "step-1", Status: replay.StepSuccess, Iterations: 1},
		&replay.ToolCall{T: at(accepted + 1), ID: "tc_1", Tool: "sandbox_run", Params: job.Canonical, StepID: "step-2"},
		&replay.ToolResult{T: at(delivered), ID: "tc_1", OutputHash: m.terms.OutputHash, ExitCode: &zero, StepUtility: 1, LatencyMs: 415},
		&replay.StepComplete{T: at(delivered), StepID: "step-2", Status: replay.StepSuccess, Iterations: 1},
		&replay.SessionEnd{T: at(delivered), Status: replay.SessionSuccess, Confidence: 1, TotalToolCalls: 2, TotalLatencyMs: 455},
	)
	if r.session != nil {
		lines = r.session(lines)
	}
	var file bytes.Buffer
	w := replay.NewWriter(&file)
	for _, line := range lines {
		if err := w.Write(line); err != nil {
			panic(err)
		}
	}
	hashes := must(w.Close())
	m.bundle.Replay = file.Bytes()
	if r.replay != nil {
		m.bundle.Replay = r.replay(file.Bytes())
		if s, err := replay.Check(bytes.NewReader(m.bundle.Replay), replay.Limits{}); err == nil {
			hashes = s.Hashes
		}
	}
	m.terms.TrajectoryHash, m.terms.RedactedTrajectoryHash, m.terms.ReplayHash = hashes.Trajectory, hashes.Redacted, hashes.Replay
}

func (r recipe) makeReceipt(m *made) {
	// The receipt is put together by hand, because New would refuse most of
	// what an attacker does.
	quoteHash, hash := hashing.Bytes(m.bundle.Quote), preimage().Hash()
	t := m.terms
	rail := r.network.Rail()
	proof := receipts.ProofOf(rail)
	value, outpoints := r.proof()
	rec := receipts.Receipt{
		Version: 1, ReceiptID: receipts.NewReceiptID(quoteHash, hash), SessionID: t.SessionID, TrajectoryHash: t.TrajectoryHash,
		PolicyBundleID: t.PolicyBundleID, JobHash: t.JobHash,
		PaymentProof: receipts.PaymentProof{Type: proof, Value: value},
		Rail:         rail, AssetID: payments.AssetID(r.network), AmountMsats: price,
		ProviderID: must(receipts.Npub(xOnly(r.provider))), Timestamp: receipts.Timestamp(time.Unix(settled, 0)),
		SchemaID: t.SchemaID, Mode: r.mode, Delivery: r.delivery(),
		RequestEventID: m.request.ID, ResultEventID: m.result.ID, BuyerID: must(receipts.Npub(xOnly(r.buyer))),
		OutputHash: t.OutputHash, AgreementHash: t.AgreementHash, PlanHash: t.PlanHash, QuoteHash: quoteHash,
		Verification: receipts.Verification{Adjudication: schemas.NoAdjudication, Redundancy: 1, Tier: schemas.TierObjective},
		BOLT11:       m.bolt11, PaymentHash: hash.String(), PayeeNode: compressed(r.node),
		ReplayHash: t.ReplayHash, RedactedTrajectoryHash: t.RedactedTrajectoryHash, Sequence: 1,
	}
	if r.fee {
		r.unwork(m, &rec)
		t = receipts.ResultTerms{}
	}
	if m.accept != nil {
		rec.AcceptanceEventID, rec.ApprovalRuleID = &m.accept.ID, m.rule
	}
	if !r.first {
		m.bundle.Previous = previousReceipt(rec)
		before := hashing.Bytes(m.bundle.Previous)
		rec.Sequence, rec.PreviousReceiptHash = 2, &before
	}
	m.evidence = receipts.Evidence{
		Quote: m.quote, Invoice: m.bolt11, Preimage: preimage(), Outpoints: outpoints, Result: t, ResultEventID: rec.ResultEventID,
		Verification: rec.Verification, Acceptance: m.accept, SettledAt: time.Unix(settled, 0), Sequence: rec.Sequence, Previous: rec.PreviousReceiptHash,
	}
	apply(r.receipt, &rec)
	m.receipt = rec
	m.bundle.Receipt = rewritten(r.receiptDoc, must(rec.Canonical()))
	ev := must(receipts.ReceiptEvent(rec, settled))
	ev.Content = string(m.bundle.Receipt)
	apply(r.receiptEvent, &ev)
	sign(&ev, r.signReceipt)
	m.bundle.ReceiptEvent = ev.JSON()
}

// unwork takes from a receipt and its bundle all that is of work.
func (r recipe) unwork(m *made, rec *receipts.Receipt) {
	none := hashing.Digest{}
	rec.Purpose, rec.SessionID, rec.ResultEventID, rec.AgreementHash = receipts.PurposeEngagement, "", "", nil
	rec.TrajectoryHash, rec.RedactedTrajectoryHash, rec.ReplayHash, rec.PlanHash, rec.OutputHash = none, none, none, none, none
	b := m.bundle
	b.ResultEvent, b.Result, b.Seal, b.Replay, b.PRSummary, b.Artifacts = nil, nil, nil, nil, nil, map[string][]byte{}
}

// previousReceipt is some other receipt of the same provider.
func previousReceipt(like receipts.Receipt) []byte {
	if like.SessionID != "" {
		like.SessionID = "session-0"
	}
	like.QuoteHash = hashing.Bytes([]byte("another quote"))
	like.ReceiptID = receipts.NewReceiptID(like.QuoteHash, must(payments.ParseHash(like.PaymentHash)))
	return must(like.Canonical())
}
