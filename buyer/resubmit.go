package buyer

import (
	"github.com/lightwork-market/lightwork/receipts"
)

// OrderOf is the order that a stored purchase began with, to be placed again:
// the same document for the same provider, maximum, mode and delivery. What the
// provider announced then is left out: prices may have changed.
func OrderOf(p Purchase) (Order, error) {
	_, req, err := typedRequest(p)
	if err != nil {
		return Order{}, err
	}
	ev, err := p.asked()
	if err != nil {
		return Order{}, err
	}
	o := Order{
		Provider: p.Provider, SchemaID: p.SchemaID, Input: req.Canonical, MaxMsats: p.MaxMsats,
		Delivery: receipts.DeliveryPlain, PayeeNode: p.PayeeNode, Outside: p.Outside, Encrypt: p.Hidden != nil,
	}
	for _, t := range ev.Tags {
		if len(t) < 3 || t[0] != "param" {
			continue
		}
		switch t[1] {
		case "payment_mode":
			o.Mode = receipts.Mode(t[2])
		case "delivery":
			o.Delivery = receipts.Delivery(t[2])
		}
	}
	return o, nil
}
