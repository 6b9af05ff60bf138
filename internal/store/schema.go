package store

import (
	_ "embed"
	"fmt"
	"strings"
)

// baseline is the version of the first migration. Until the first release it rises with
// every change of the schema, so that a database of an earlier program is refused for
// what it is.
const baseline = 1001

//go:embed schema/journal.sql
var journalSQL string

//go:embed schema/contexts.sql
var contextsSQL string

//go:embed schema/outbox.sql
var outboxSQL string

//go:embed schema/sales.sql
var salesSQL string

//go:embed schema/purchases.sql
var purchasesSQL string

//go:embed schema/money.sql
var moneySQL string

// migrations are the steps from an empty file to the present schema: the first is
// the whole of it, area by area. From the first release on a step never changes, and
// what is new comes as a further one. A script must take no time, whatever the
// database holds: a step that has to go through rows is to do so in batches of a
// bounded number, which sqlite.Options learns with the first that needs it.
func migrations() []string {
	return []string{
		journalSQL + appendOnly("threads", "thread_states", "audit", "directives", "correlation") +
			contextsSQL + appendOnly("content_pins", "context_segments", "context_states") +
			outboxSQL + appendOnly("outbox", "outbox_answers", "event_signatures") +
			salesSQL + appendOnly("jobs", "charges", "charge_invoices", "charge_acceptances", "charge_payments", "chosen_hashes",
			"job_orders", "job_runs", "job_results", "job_result_events", "receipts", "receipt_heads", "policy_runs") +
			purchasesSQL + appendOnly("purchases", "purchase_states", "purchase_plain", "purchase_hidden", "purchase_inputs",
			"purchase_engagements", "feedback", "purchase_results", "purchase_sealed", "purchase_receipts",
			"purchase_cancels", "panels", "panel_seats", "panel_closings", "panel_reveals",
			"panel_decisions", "panel_rulings", "panel_adjudications", "orders", "order_requests") +
			moneySQL + appendOnly("credits", "job_credits", "late_credits", "refunds", "refund_retries", "refund_outcomes",
			"write_offs", "refund_addresses", "attempts", "ledger", "purchase_payments",
			"purchase_refunds", "purchase_credits", "payer_wallets", "sent_payments", "sent_refunds"),
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
