//go:build lnd

package crashmatrix

import "testing"

// inMode are the rows of a job whose invoice lnd settles by itself: paid before
// it runs, or after its result is there.
func inMode(mode rail) (cells []cell) {
	node, letter := []way{killNode}, string(mode[:2])
	for _, row := range [][]cell{
		point("P2", "quote intent committed", seller, node, "provider asks AddInvoice"),
		point("P3", "invoice made, reply lost", seller, all, "provider hears AddInvoice"),
		point("P5", "SETTLED, not recorded", seller, all, "provider hears LookupInvoice SETTLED"),
		point("P9", "result durable, not published", seller, nodeLND, "provider sends 6050"),
		point("P12", "receipt recorded, not sent", seller, nodeLND, "provider sends 7002"),
		point("B1", "reserved, not sent", customer, nodeLND, "buyer asks SendPaymentV2"),
		point("B2", "sent, reply lost", customer, node, "buyer hears SendPaymentV2 IN_FLIGHT"),
		point("B6", "succeeded, not recorded", customer, nodeLND, "buyer hears TrackPaymentV2 SUCCEEDED"),
	} {
		cells = append(cells, row...)
	}
	return with(cells, func(c *cell) {
		c.point, c.rail, c.as = c.point+letter, mode, c.point
		c.args = func(*testing.T, *world) []string { return []string{"--mode", string(mode), "--cmd", "echo done"} }
	})
}
