package nwc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
)

// Info is what a wallet service announces of itself in its info event.
type Info struct {
	// Capabilities are the methods, and words that are not methods.
	Capabilities  []string
	Notifications []string // types, such as payment_received
	Encryption    Scheme   // the one that will be used
	At            time.Time
}

// Bounds of an info event.
const (
	maxInfoBytes = 4096
	maxWords     = 128
)

// parseInfo reads an info event, whose signature was checked.
func parseInfo(ev *nostr.Event) (Info, error) {
	info := Info{At: ev.CreatedAt.Time().UTC(), Encryption: NIP04} // no tag: a wallet of the first days
	var err error

	// The delimiter is a space; a wallet in use wrote commas.
	if info.Capabilities, err = words(strings.ReplaceAll(ev.Content, ",", " ")); err != nil {
		return Info{}, err
	}

	for _, t := range ev.Tags {
		if len(t) < 2 || t[0] != "notifications" && t[0] != "encryption" {
			continue
		}
		list, err := words(t[1])
		if err != nil {
			return Info{}, err
		}
		if t[0] == "notifications" {
			info.Notifications = list
			continue
		}
		if info.Encryption, err = choose(list); err != nil {
			return Info{}, err
		}
	}

	return info, nil
}

// choose prefers NIP-44 wherever it stands.
func choose(offered []string) (Scheme, error) {
	for _, s := range []Scheme{NIP44, NIP04} {
		if slices.Contains(offered, string(s)) {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: the wallet offers no encryption that is supported here", payments.ErrUnsupported)
}

func words(s string) ([]string, error) {
	if len(s) > maxInfoBytes {
		return nil, fmt.Errorf("%w: info event of %d bytes", ErrAnswer, len(s))
	}
	list := strings.Fields(s)
	if len(list) > maxWords {
		return nil, fmt.Errorf("%w: info event of %d words", ErrAnswer, len(list))
	}
	return list, nil
}

// Has reports whether the service offers the method.
func (i Info) Has(m Method) bool { return i.has(string(m)) }

func (i Info) has(word string) bool { return slices.Contains(i.Capabilities, word) }

// CanHold reports whether the service makes hold invoices, and so can be paid
// by a buyer who wants his money back if the work is not done.
func (i Info) CanHold() bool {
	return i.Has(MakeHoldInvoice) && i.Has(SettleHoldInvoice) && i.Has(CancelHoldInvoice) && i.Has(LookupInvoice)
}

// CanPrepay reports whether the service makes invoices with a preimage of
// ours, so that a quote of prepay or postpay can name the payment hash.
func (i Info) CanPrepay() bool {
	return i.Has(MakeInvoice) && i.has(wordPreimage) && i.Has(LookupInvoice)
}

// CanChoose reports whether the service makes invoices at all. The payment hash is
// then its own choice, and known once there is the invoice.
func (i Info) CanChoose() bool { return i.Has(MakeInvoice) && i.Has(LookupInvoice) }

// CanPay reports whether the service pays and tells afterwards what became of
// a payment.
func (i Info) CanPay() bool { return i.Has(PayInvoice) && i.Has(LookupInvoice) }
