package provider

import (
	"testing"

	"github.com/lightwork-market/lightwork/receipts"
)

func TestPreimageIsTheJobs(t *testing.T) {
	p := &Provider{cfg: Config{RootSecret: make([]byte, 32)}}
	job := Job{RequestID: "r", Charge: Charge{Nonce: []byte("0123456789abcdef")}}
	again := Job{RequestID: "r", Charge: Charge{Nonce: []byte("0123456789abcdef")}, Run: 3}
	if p.preimage(job.RequestID, &job.Charge) != p.preimage(again.RequestID, &again.Charge) {
		t.Fatal("the same job has two preimages")
	}
	other := job
	other.Nonce = []byte("0123456789abcdeF")
	if p.preimage(job.RequestID, &job.Charge) == p.preimage(other.RequestID, &other.Charge) {
		t.Fatal("another nonce gives the same preimage")
	}
	other = job
	other.RequestID = "s"
	if p.preimage(job.RequestID, &job.Charge) == p.preimage(other.RequestID, &other.Charge) {
		t.Fatal("another request gives the same preimage")
	}
	fee := job
	fee.Purpose = receipts.PurposeEngagement
	if p.preimage(job.RequestID, &job.Charge) == p.preimage(fee.RequestID, &fee.Charge) {
		t.Fatal("the fee has the preimage of the result")
	}
	if p.preimage(job.RequestID, &job.Charge).IsZero() {
		t.Fatal("zero preimage")
	}
}
