package purchase

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// sold is a purchase of a sandbox job that was delivered with this status.
func sold(t *testing.T, status schemas.Status) buyer.Purchase {
	t.Helper()
	out, err := json.Marshal(schemas.SandboxRunResult{Status: status, Error: "e"})
	if err != nil {
		t.Fatal(err)
	}
	ev := nostr.Event{Tags: nostr.Tags{{"i", `{"sandbox":{"resources":{"timeout_secs":7}}}`, "text"}}}
	request, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return buyer.Purchase{SchemaID: string(schemas.SandboxRun), State: buyer.StateDone, Request: request, Output: out, JobHash: hashing.Bytes(nil)}
}

func TestUnmetJobsHaveACode(t *testing.T) {
	for status, want := range map[schemas.Status]string{
		schemas.StatusSuccess: "",
		schemas.StatusFailed:  "the job was done and its commands failed",
		schemas.StatusTimeout: "the job was done and its commands were stopped at their 7 s limit",
		schemas.StatusError:   "the job ended as error: e",
	} {
		err := Unmet(sold(t, status))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", status, err)
			}
			continue
		}
		var coded *advice.Error
		if !errors.As(err, &coded) || coded.Code != advice.ExitUnmet || err.Error() != want {
			t.Errorf("%s: %v", status, err)
		}
	}
	open := sold(t, schemas.StatusFailed)
	open.State = buyer.StatePaid
	if err := Unmet(open); err != nil {
		t.Errorf("a purchase that is not done: %v", err)
	}
}

func TestWhatIsLeftOfAnInterruptedPurchase(t *testing.T) {
	held := buyer.Purchase{State: buyer.StatePaying, Charge: buyer.Charge{Attempt: &buyer.Attempt{AmountMsats: 20_000}}}
	paid := buyer.Purchase{State: buyer.StatePaid, Charge: buyer.Charge{Payment: &payments.Payment{State: payments.PaymentSucceeded, AmountMsats: 9000}}}
	for want, p := range map[string]buyer.Purchase{
		"20 sat are held, the job goes on":    held,
		"9 sat are paid, the job goes on":     paid,
		"nothing is paid, the request is out": {State: buyer.StateRequested},
	} {
		if got := Left(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if v := ViewOf(held); v.Money() != "held 20 sat" {
		t.Errorf("listed as %q", v.Money())
	}
}
