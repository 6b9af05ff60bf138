package main

import (
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
)

// buysFrom says whether the provider sells the job in a mode that was asked
// for, or, where none was, in one that this buyer buys in.
func (b buyerSubmitCmd) buysFrom(n *buyerNode, l buyer.Listing) bool {
	modes := l.Modes[b.Schema]
	if len(modes) == 0 {
		return true // other programs' providers name none
	}
	if b.Mode != "" {
		return slices.Contains(modes, b.Mode)
	}
	return slices.ContainsFunc(modes, func(m receipts.Mode) bool { return n.client.CheckMode(m) == nil })
}

// modeWith is the mode that the request names: the one asked for, or the first
// that the provider announces and this buyer buys in. It stays "" where that
// is the provider's own default.
func (b buyerSubmitCmd) modeWith(n *buyerNode, l buyer.Listing) receipts.Mode {
	modes := l.Modes[b.Schema]
	if b.Mode != "" || len(modes) == 0 || n.client.CheckMode(modes[0]) == nil {
		return b.Mode
	}
	for _, m := range modes {
		if n.client.CheckMode(m) == nil {
			return m
		}
	}
	return ""
}

// noMode is for when nobody who does the job sells it in such a mode.
func (b buyerSubmitCmd) noMode(nobody string, announced []receipts.Mode) error {
	if b.Mode != "" {
		return usage(fmt.Sprintf("announced are %v", announced), "%s %s in mode %s", nobody, b.Schema, b.Mode)
	}
	hint := fmt.Sprintf("announced are %v: add one to buyer.modes in the configuration", announced)
	if slices.Equal(announced, []receipts.Mode{receipts.ModePrepay}) {
		hint += "; in prepay a provider can keep the money"
	}
	return usage(hint, "%s %s in a mode that is among buyer.modes", nobody, b.Schema)
}
