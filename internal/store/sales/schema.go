// Package sales keeps what a provider sells: requests, jobs, charges, runs, results and receipts.
package sales

import (
	_ "embed"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("jobs", "charges", "charge_invoices", "charge_acceptances", "charge_payments", "chosen_hashes",
		"job_orders", "job_runs", "job_results", "job_result_events", "receipts", "receipt_heads", "policy_runs")
}
