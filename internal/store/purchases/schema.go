// Package purchases keeps what a buyer buys: purchases, orders and panels.
package purchases

import (
	_ "embed"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("purchases", "purchase_states", "purchase_plain", "purchase_hidden", "purchase_inputs",
		"purchase_engagements", "feedback", "purchase_results", "purchase_sealed", "purchase_receipts",
		"purchase_cancels", "panels", "panel_seats", "panel_closings", "panel_reveals",
		"panel_decisions", "panel_rulings", "panel_adjudications", "orders", "order_requests")
}
