package buy

import (
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/payments"
)

// most is the part of a purchase's flags that says how much it may cost. Wallets
// show satoshis, invoices and quotes count in millisatoshis: either can be given.
type most struct {
	Sats  *int64 `name:"max-sats" help:"The most to pay, routing fees included, in satoshis." placeholder:"SATS"`
	Msats *int64 `name:"max-msats" help:"The same in millisatoshis: 50000 is 50 sat." placeholder:"MSATS"`
}

// limit is the maximum in msats; not ok if none was given.
func (m most) limit() (msats int64, ok bool, err error) {
	const free = "0 takes free jobs only"
	switch {
	case m.Sats != nil && m.Msats != nil:
		return 0, false, advice.Usage("leave one of them out", "--max-sats and --max-msats cannot be given together: they say the same thing in two units")
	case m.Sats != nil && *m.Sats < 0:
		return 0, false, advice.Usage(free, "--max-sats cannot be negative, it is %d", *m.Sats)
	case m.Sats != nil && *m.Sats > payments.MaxMsats/1000:
		return 0, false, advice.Usage("", "--max-sats: there are no more than %d, it is %d", payments.MaxMsats/1000, *m.Sats)
	case m.Sats != nil:
		return *m.Sats * 1000, true, nil
	case m.Msats == nil:
		return 0, false, nil
	case *m.Msats < 0:
		return 0, false, advice.Usage(free, "--max-msats cannot be negative, it is %d", *m.Msats)
	case *m.Msats > payments.MaxMsats:
		return 0, false, advice.Usage("", "--max-msats: there are no more than %d, it is %d", payments.MaxMsats, *m.Msats)
	}

	return *m.Msats, true, nil
}
