package receipts_test

import (
	"bytes"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
)

func forgedArtifacts() []scenario {
	return []scenario{
		{
			name: "artifact_not_listed", about: "an artifact that the result does not list",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Artifacts[hashing.Bytes([]byte("extra")).Hex()] = []byte("extra") }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "artifact_swapped", about: "an artifact has other content of the same length",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Artifacts[hashing.Bytes(buildLog).Hex()] = bytes.ToUpper(buildLog) }},
			want:   failed(receipts.ClaimResult),
		},
		{
			name: "artifact_two_sizes", about: "the result lists one artifact with two sizes",
			recipe: recipe{output: func(out map[string]any) {
				twin := map[string]any{"path": "copy", "sha256": digest(buildLog), "size_bytes": 1}
				out["artifacts"] = append([]any{twin}, out["artifacts"].([]any)...)
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "artifact_size", about: "the result lists another size for an artifact",
			recipe: recipe{output: func(out map[string]any) {
				out["artifacts"].([]any)[0].(map[string]any)["size_bytes"] = 1
			}},
			want: failed(receipts.ClaimResult),
		},
		{
			name: "pr_summary_swapped", about: "PR_SUMMARY.md is not the artifact",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.PRSummary = []byte("# All is well\n") }}, want: failed(receipts.ClaimResult),
		},
	}
}

func forgedReplay() []scenario {
	other := recipe{output: func(out map[string]any) { out["status"] = "error" }}.make()
	return []scenario{
		{
			name: "replay_cut", about: "the last line of the session is gone",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Replay = cutLines(b.Replay, -1) }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_pair_removed", about: "a call and its result are gone and the count is adjusted",
			recipe: recipe{finished: func(b *receipts.Bundle) {
				b.Replay = bytes.Replace(cutLines(b.Replay, 4, 5), []byte(`"total_tool_calls":2`), []byte(`"total_tool_calls":1`), 1)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_other_session", about: "the session of another job",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Replay = other.bundle.Replay }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_ends_with_other_output", about: "the last tool result is not the delivered output",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				lines[8].(*replay.ToolResult).OutputHash = hashing.Bytes([]byte("other"))
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_without_payment", about: "a held payment that the session never saw",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line { return append(lines[:3:3], lines[4:]...) }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_paid_late", about: "the work began before the payment was held",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				lines[3], lines[4] = lines[4], lines[3]
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_postpay_with_payment", about: "a session that was paid afterwards claims to have been paid before",
			recipe: recipe{mode: receipts.ModePostpay, session: func(lines []replay.Line) []replay.Line {
				paid := &replay.Payment{T: lines[1].(*replay.SessionStart).T, Rail: "lightning", AssetID: "PLAY_LN", AmountMsats: price, Status: replay.PaymentReceived}
				return append(lines[:3:3], append([]replay.Line{paid}, lines[3:]...)...)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_payment_of_another_job", about: "the session was paid for another job",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				d := hashing.Bytes([]byte("other"))
				lines[3].(*replay.Payment).JobHash = &d
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_shows_a_proof", about: "the session holds a payment proof",
			recipe: recipe{replay: func(file []byte) []byte {
				return bytes.Replace(file, []byte(`"payment_proof":null`), []byte(`"payment_proof":"aa"`), 1)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_session_id", about: "the record is of another session",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				lines[1].(*replay.SessionStart).SessionID = "session-9"
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_policy", about: "the session ran under another policy",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				lines[1].(*replay.SessionStart).PolicyBundleID = digest([]byte("other"))
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "trajectory_hash", about: "only the trajectory hash is another",
			recipe: recipe{recorded: func(t *receipts.ResultTerms) { t.TrajectoryHash[0]++ }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "redacted_trajectory_hash", about: "only the redacted trajectory hash is another",
			recipe: recipe{recorded: func(t *receipts.ResultTerms) { t.RedactedTrajectoryHash[0]++ }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_hash", about: "only the hash of the file is another",
			recipe: recipe{recorded: func(t *receipts.ResultTerms) { t.ReplayHash[0]++ }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_redacted_hash", about: "only the redacted trajectory hash is another, and the record is redacted",
			recipe: recipe{
				recorded: func(t *receipts.ResultTerms) { t.RedactedTrajectoryHash[0]++ },
				finished: func(b *receipts.Bundle) { b.Replay = redacted(b.Replay) },
			},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_paid_twice", about: "the session was paid twice",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				return append(lines[:4:4], lines[3:]...)
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_redacted_other", about: "the redacted record of another session",
			recipe: recipe{finished: func(b *receipts.Bundle) { b.Replay = redacted(other.bundle.Replay) }}, want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_other_amount", about: "the session saw another amount",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line {
				lines[3].(*replay.Payment).AmountMsats = 1
				return lines
			}},
			want: failed(receipts.ClaimTrajectory),
		},
		{
			name: "replay_without_plan", about: "the session had no plan",
			recipe: recipe{session: func(lines []replay.Line) []replay.Line { return append(lines[:2:2], lines[3:]...) }}, want: failed(receipts.ClaimTrajectory),
		},
	}
}

func forgedPolicy() []scenario {
	swapped := strings.Replace(policyDoc, `"lightwork@1"`, `"lightwork@2"`, 1)
	list := []scenario{{
		name: "policy_swapped", about: "another policy manifest",
		recipe: recipe{finished: func(b *receipts.Bundle) { b.Policy = []byte(swapped) }}, want: failed(receipts.ClaimPolicy),
	}}
	for _, bad := range badPolicies() {
		doc := []byte(bad.doc)
		list = append(list, scenario{
			name: "policy_" + strings.ReplaceAll(bad.name, " ", "_"), about: "the policy manifest: " + bad.name + "; everything commits to it",
			recipe: recipe{
				quote:     func(q *receipts.Quote) { q.PolicyBundleID = hashing.Bytes(doc) },
				delivered: func(t *receipts.ResultTerms) { t.PolicyBundleID = hashing.Bytes(doc) },
				finished:  func(b *receipts.Bundle) { b.Policy = doc },
			},
			want: failed(receipts.ClaimPolicy),
		})
	}
	return list
}
