// Package money keeps what is owed, reserved, spent and refunded.
package money

import (
	_ "embed"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("credits", "job_credits", "late_credits", "refunds", "refund_retries", "refund_outcomes",
		"write_offs", "refund_addresses", "attempts", "ledger", "purchase_payments",
		"purchase_refunds", "purchase_credits", "payer_wallets", "sent_payments", "sent_refunds")
}
