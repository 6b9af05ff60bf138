package admission

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Limits bound what buyers can take. Zero values mean the defaults.
type Limits struct {
	Concurrent     int           // jobs run at once (2)
	Queue          int           // paid jobs waiting or running, all buyers (64)
	QueuePerBuyer  int           // (8)
	Unpaid         int           // open invoices, all buyers (256)
	UnpaidPerBuyer int           // (8)
	HeldPerBuyer   int           // held payments (8)
	Runs           int           // tries of one job across restarts (3)
	QuoteTTL       time.Duration // (10 min)
	PostpayTTL     time.Duration // how long a delivered postpay job may stay unpaid (24 h)
	Unconfirmed    time.Duration // how long a payment on the chain may stay so after its quote has ended (24 h)
	Silence        time.Duration // how long the wallet may not say how an invoice stands after its quote has ended (1 h)
	ClockWindow    time.Duration // how old a request may be (1 h); the future gets 5 min
	HoldMargin     time.Duration // a hold is given up this long before it is lost (2 min)
	RefusalsPerMin int           // answers to bad requests, and to pings, per key (10)
	LookupEvery    time.Duration // how often open invoices are looked up without a hint (30 s)
	FreePoW        int           // bits of proof of work for a free job (0)
	MemoryMB       int64         // the most a job may ask for, MiB (4096)
	CPUs           float64       // the most a job may ask for (4)
	ContextTokens  int           // the longest request, 4 bytes a token (262144: schemas.MaxRequestBytes)
}

// A LimitError is a limit that cannot be meant.
type LimitError struct{ Name, Why string }

func (e *LimitError) Error() string { return "limits: " + e.Name + " " + e.Why }

// Check finds limits that cannot be meant: 0 stands for the default. It gives a
// *LimitError.
func (l Limits) Check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"concurrent", int64(l.Concurrent)},
		{"queue", int64(l.Queue)},
		{"queue_per_buyer", int64(l.QueuePerBuyer)},
		{"unpaid", int64(l.Unpaid)},
		{"unpaid_per_buyer", int64(l.UnpaidPerBuyer)},
		{"held_per_buyer", int64(l.HeldPerBuyer)},
		{"runs", int64(l.Runs)},
		{"quote_ttl", int64(l.QuoteTTL)},
		{"postpay_ttl", int64(l.PostpayTTL)},
		{"unconfirmed", int64(l.Unconfirmed)},
		{"silence", int64(l.Silence)},
		{"clock_window", int64(l.ClockWindow)},
		{"hold_margin", int64(l.HoldMargin)},
		{"refusals_per_min", int64(l.RefusalsPerMin)},
		{"lookup_every", int64(l.LookupEvery)},
		{"free_pow_bits", int64(l.FreePoW)},
		{"memory_mb", l.MemoryMB},
		{"cpus", int64(l.CPUs)},
		{"context_tokens", int64(l.ContextTokens)},
	} {
		if n.value < 0 {
			return &LimitError{n.name, "cannot be negative"}
		}
	}

	if l.ClockWindow > job.RefusedFor/2 {
		return &LimitError{"clock_window", fmt.Sprintf("is at most %v, since refusals are forgotten after %v", job.RefusedFor/2, job.RefusedFor)}
	}
	if l.QuoteTTL > 0 && l.QuoteTTL < time.Second {
		return &LimitError{"quote_ttl", "is shorter than a second"}
	}

	return nil
}

// WithDefaults sets what is zero.
func (l Limits) WithDefaults() Limits {
	def(&l.Concurrent, 2)
	def(&l.Queue, 64)
	def(&l.QueuePerBuyer, 8)
	def(&l.Unpaid, 256)
	def(&l.UnpaidPerBuyer, 8)
	def(&l.HeldPerBuyer, 8)
	def(&l.Runs, 3)
	def(&l.QuoteTTL, 10*time.Minute)
	def(&l.PostpayTTL, 24*time.Hour)
	def(&l.Unconfirmed, 24*time.Hour)
	def(&l.Silence, time.Hour)
	def(&l.ClockWindow, time.Hour)
	def(&l.HoldMargin, 2*time.Minute)
	def(&l.RefusalsPerMin, 10)
	def(&l.LookupEvery, 30*time.Second)
	def(&l.MemoryMB, 4096)
	def(&l.CPUs, 4)
	def(&l.ContextTokens, schemas.MaxRequestBytes/receipts.BytesPerToken)
	return l
}

// def sets *v to d if it is zero.
func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
