//go:build lnd

package crashmatrix

import "testing"

// point is a row of the table: one moment, several ways.
func point(name, what, victim string, ways []way, at ...moment) []cell {
	var cells []cell
	for _, way := range ways {
		cells = append(cells, cell{
			point: name, rail: hold, what: what, way: way, victim: victim,
			steps: func(*testing.T, *world) []step {
				steps := make([]step, len(at))
				for i := range at {
					steps[i].at = at[i]
				}
				return steps
			},
		})
	}
	return cells
}

// with changes every cell of a row.
func with(cells []cell, change func(*cell)) []cell {
	for i := range cells {
		change(&cells[i])
	}
	return cells
}

var (
	all     = []way{killNode, killLND, cutLine}
	nodeCut = []way{killNode, cutLine}
	nodeLND = []way{killNode, killLND}
)

// lndTable is every crash point of a payment over Lightning. P is the provider's
// side, B the buyer's.
func lndTable() []cell {
	var cells []cell
	for _, row := range [][]cell{
		jobSeen(),
		point("P2", "quote intent committed", seller, all, "provider asks AddHoldInvoice"),
		point("P3", "invoice made, reply lost", seller, all, "provider hears AddHoldInvoice"),
		point("P4", "7000 signed, not published", seller, all, "provider sends 7000-payment-required"),
		point("P5", "ACCEPTED, not recorded", seller, all, "provider hears LookupInvoice ACCEPTED"),
		point("P6", "recorded, job not started", seller, all, "provider hears LookupInvoice ACCEPTED", "provider asks LookupInvoice"),
		agentAtWork(),
		resultNotDurable(),
		point("P9", "result durable, not published", seller, all, "provider sends 6050"),
		point("P10", "settle sent, reply lost", seller, all, "provider hears SettleInvoice"),
		point("P11", "published, not settled", seller, all, "provider asks SettleInvoice"),
		point("P12", "settled, receipt not recorded", seller, all, "provider hears SettleInvoice", "provider hears LookupInvoice SETTLED"),
		point("P12b", "receipt recorded, not sent", seller, all, "provider sends 7002"),
		someRelays(),
		nearTheCLTV(),
		cancelReplyLost(),
		oldBackup(),
		diskFull(),
		point("B1", "reserved, not sent", customer, all, "buyer asks SendPaymentV2"),
		point("B2", "sent, reply lost", customer, nodeCut, "buyer hears SendPaymentV2 IN_FLIGHT"),
		point("B3", "in flight, we die", customer, nodeCut, "provider hears LookupInvoice ACCEPTED"),
		point("B4", "in flight, lnd dies", customer, []way{killLND}, "provider hears LookupInvoice ACCEPTED"),
		point("B6", "succeeded, not recorded", customer, all, "buyer hears TrackPaymentV2 SUCCEEDED"),
		twoBuyers(),
		otherInvoice(),
		paidNoResult(),
		stuck(),
		inMode(prepay),
		inMode(postpay),
		nwcRows(),
		pastTheCLTV(),
	} {
		cells = append(cells, row...)
	}
	return cells
}
