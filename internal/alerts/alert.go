// Package alerts tells the owner of a node what needs attention: each condition once when
// it begins and once when it has ended, by channels that cannot hold up the node.
package alerts

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/clip"
)

// Kind is what a condition is about.
type Kind string

// The kinds of conditions.
const (
	Debts         Kind = "debts"                 // buyers of failed jobs are owed money
	CannotPay     Kind = "wallet_cannot_pay"     // of the buyer, or the provider's for what is owed
	CannotInvoice Kind = "wallet_cannot_invoice" // of the provider
	DiskFull      Kind = "disk_full"
	RelayGone     Kind = "relay_gone" // Of says which
	Budget        Kind = "budget_nearly_spent"
	SecondNode    Kind = "second_node" // another sells with the same key
	Test          Kind = "test"        // of no condition
)

// Condition is something that is so now.
type Condition struct {
	Kind Kind
	Of   string // what it is about, where there can be several of a kind
	Text string
}

// Alert is a condition that was raised and has not ended.
type Alert struct {
	Kind  Kind      `json:"kind"`
	Of    string    `json:"of,omitempty"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// State is what a message says of an alert.
type State string

// The states of a message.
const (
	Raised State = "raised"
	Ended  State = "ended"
)

// Message is what a channel is told.
type Message struct {
	State State     `json:"state"`
	Node  string    `json:"node"` // its configured name
	At    time.Time `json:"at"`
	// Dropped is how many messages before this one were not told, as too many waited.
	Dropped int `json:"dropped,omitempty"`
	Alert
}

// Line is the message for a person.
func (m Message) Line() string {
	text := fmt.Sprintf("lightwork %s: %s %s: %s", m.Node, m.State, m.Kind, m.Text)
	if m.State == Ended {
		text = fmt.Sprintf("lightwork %s: ended after %v, %s: %s", m.Node, m.At.Sub(m.Since).Round(time.Second), m.Kind, m.Text)
	}
	if m.Dropped > 0 {
		text += fmt.Sprintf(" (%d messages before it were left out)", m.Dropped)
	}
	return text
}

// What the words of others in an alert are cut to, in characters.
const (
	maxText = 300
	maxOf   = 200
)

// bounded is the condition with words that fit a line and control nothing.
func (c Condition) bounded() Condition {
	c.Of, c.Text = clip.Line(c.Of, maxOf), clip.Line(c.Text, maxText)
	return c
}
