package kernel

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed schema/base.sql
var baseSQL string

//go:embed schema/provider.sql
var providerSQL string

//go:embed schema/buyer.sql
var buyerSQL string

//go:embed schema/heads.sql
var headsSQL string

//go:embed schema/sealed.sql
var sealedSQL string

//go:embed schema/context.sql
var contextSQL string

//go:embed schema/signatures.sql
var signaturesSQL string

//go:embed schema/outside.sql
var outsideSQL string

//go:embed schema/hidden.sql
var hiddenSQL string

//go:embed schema/debts.sql
var debtsSQL string

//go:embed schema/policies.sql
var policiesSQL string

//go:embed schema/panel.sql
var panelSQL string

//go:embed schema/outbox_due.sql
var outboxDueSQL string

//go:embed schema/customers.sql
var customersSQL string

//go:embed schema/retries.sql
var retriesSQL string

//go:embed schema/engagement.sql
var engagementSQL string

//go:embed schema/adjudication.sql
var adjudicationSQL string

//go:embed schema/refused.sql
var refusedSQL string

//go:embed schema/inputs.sql
var inputsSQL string

//go:embed schema/deadline.sql
var deadlineSQL string

//go:embed schema/plan.sql
var planSQL string

//go:embed schema/chain.sql
var chainSQL string

//go:embed schema/purchase_credits.sql
var purchaseCreditsSQL string

//go:embed schema/chain_refunds.sql
var chainRefundsSQL string

//go:embed schema/refund_addresses.sql
var refundAddressesSQL string

//go:embed schema/kept.sql
var keptSQL string

//go:embed schema/payer_wallets.sql
var payerWalletsSQL string

//go:embed schema/names.sql
var namesSQL string

//go:embed schema/lean.sql
var leanSQL string

//go:embed schema/outbox_numbers.sql
var outboxNumbersSQL string

//go:embed schema/job_history.sql
var jobHistorySQL string

//go:embed schema/receipt_lists.sql
var receiptListsSQL string

//go:embed schema/totals.sql
var totalsSQL string

//go:embed schema/journal_blocks.sql
var journalBlocksSQL string

//go:embed schema/open_refunds.sql
var openRefundsSQL string

//go:embed schema/orders.sql
var ordersSQL string

//go:embed schema/result_events.sql
var resultEventsSQL string

//go:embed schema/sent_payments.sql
var sentPaymentsSQL string

// migrations are the steps from an empty file to the present schema. An applied
// step must never change: what is new comes as a further step.
func migrations() []string {
	return []string{
		baseSQL + appendOnly("content_pins", "threads", "thread_states", "audit", "directives", "correlation",
			"outbox", "outbox_relays", "outbox_acks"),
		providerSQL + appendOnly("requests", "jobs", "job_states", "job_invoices", "job_acceptances", "job_payments",
			"job_orders", "job_runs", "job_results", "receipts", "credits"),
		buyerSQL + appendOnly("purchases", "purchase_states", "attempts", "ledger", "purchase_payments", "feedback",
			"purchase_results", "purchase_receipts", "purchase_cancels"),
		headsSQL + appendOnly("receipt_heads"),
		sealedSQL + appendOnly("purchase_sealed"),
		contextSQL + appendOnly("context_segments", "context_states"),
		signaturesSQL + appendOnly("event_signatures"),
		outsideSQL + appendOnly("purchase_outside"),
		hiddenSQL + appendOnly("purchase_hidden"),
		debtsSQL + appendOnly("job_credits", "refunds", "refund_ends", "purchase_refunds"),
		policiesSQL + appendOnly("policy_runs"),
		panelSQL + appendOnly("panels", "panel_seats", "panel_closings", "panel_reveals", "panel_decisions", "panel_rulings"),
		outboxDueSQL,
		customersSQL,
		retriesSQL + appendOnly("refund_retries", "refund_retry_ends", "write_offs"),
		engagementSQL + appendOnly("job_engagements", "engagement_invoices", "engagement_acceptances", "engagement_receipts",
			"purchase_engagements", "engagement_payments", "purchase_engagement_receipts"),
		adjudicationSQL + appendOnly("panel_adjudications"),
		refusedSQL,

		inputsSQL + appendOnly("purchase_inputs"),
		deadlineSQL,
		planSQL,

		chainSQL + appendOnly("purchase_payments", "engagement_payments", "late_credits"),

		purchaseCreditsSQL + appendOnly("purchase_credits"),

		chainRefundsSQL + appendOnly("refund_outcomes"),

		refundAddressesSQL + appendOnly("refund_addresses"),

		keptSQL,

		payerWalletsSQL + appendOnly("payer_wallets"),

		namesSQL,

		leanSQL,

		outboxNumbersSQL + appendOnly("outbox_answers"),

		jobHistorySQL,

		receiptListsSQL,

		totalsSQL,

		journalBlocksSQL,

		openRefundsSQL,

		ordersSQL + appendOnly("orders", "order_requests"),

		resultEventsSQL + appendOnly("job_result_events"),

		sentPaymentsSQL + appendOnly("sent_payments"),
	}
}

// appendOnly makes the triggers that refuse to change or delete a row.
func appendOnly(tables ...string) string {
	var b strings.Builder
	for _, t := range tables {
		for _, verb := range []string{"UPDATE", "DELETE"} {
			fmt.Fprintf(&b, "CREATE TRIGGER %s_no_%s BEFORE %s ON %s\nBEGIN SELECT RAISE(ABORT, '%s is append-only'); END;\n",
				t, strings.ToLower(verb), verb, t, t)
		}
	}
	return b.String()
}
