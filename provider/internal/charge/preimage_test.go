package charge

import (
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestPreimageIsTheJobs(t *testing.T) {
	c := New(Config{RootSecret: make([]byte, 32)})
	j := job.Job{RequestID: "r", Charge: job.Charge{Nonce: []byte("0123456789abcdef")}}
	again := job.Job{RequestID: "r", Charge: job.Charge{Nonce: []byte("0123456789abcdef")}, Run: 3}
	if c.Preimage(j.RequestID, &j.Charge) != c.Preimage(again.RequestID, &again.Charge) {
		t.Fatal("the same job has two preimages")
	}
	other := j
	other.Nonce = []byte("0123456789abcdeF")
	if c.Preimage(j.RequestID, &j.Charge) == c.Preimage(other.RequestID, &other.Charge) {
		t.Fatal("another nonce gives the same preimage")
	}
	other = j
	other.RequestID = "s"
	if c.Preimage(j.RequestID, &j.Charge) == c.Preimage(other.RequestID, &other.Charge) {
		t.Fatal("another request gives the same preimage")
	}
	fee := j
	fee.Purpose = receipts.PurposeEngagement
	if c.Preimage(j.RequestID, &j.Charge) == c.Preimage(fee.RequestID, &fee.Charge) {
		t.Fatal("the fee has the preimage of the result")
	}
	if c.Preimage(j.RequestID, &j.Charge).IsZero() {
		t.Fatal("zero preimage")
	}
}
