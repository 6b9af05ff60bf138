package nwc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
)

// Info is the content of a wallet service's info event.
type Info struct {
	// Capabilities lists the methods and other words.
	Capabilities  []string
	Notifications []string // types, such as payment_received
	Encryption    Scheme   // the scheme that will be used
	At            time.Time
}

// Bounds of an info event.
const (
	maxInfoBytes = 4096
	maxWords     = 128
)

// parseInfo parses an info event whose signature was checked.
func parseInfo(ev *nostr.Event) (Info, error) {
	info := Info{At: ev.CreatedAt.Time().UTC(), Encryption: NIP04} // without the tag: an early wallet
	var err error

	// The separator is a space, but an existing wallet writes commas.
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

// choose prefers NIP-44, wherever it is in the list.
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

// CanHold reports whether the service makes hold invoices, so that a buyer gets the
// money back if the work is not done.
func (i Info) CanHold() bool {
	return i.Has(MakeHoldInvoice) && i.Has(SettleHoldInvoice) && i.Has(CancelHoldInvoice) && i.Has(LookupInvoice)
}

// CanPrepay reports whether the service accepts our preimage for an invoice, so
// that a quote with prepay or postpay can name the payment hash.
func (i Info) CanPrepay() bool {
	return i.Has(MakeInvoice) && i.has(wordPreimage) && i.Has(LookupInvoice)
}

// CanChoose reports whether the service makes invoices at all. It then chooses the
// payment hash itself, which is known only after the invoice was made.
func (i Info) CanChoose() bool { return i.Has(MakeInvoice) && i.Has(LookupInvoice) }

// CanPay reports whether the service pays and reports the outcome of payments.
func (i Info) CanPay() bool { return i.Has(PayInvoice) && i.Has(LookupInvoice) }
