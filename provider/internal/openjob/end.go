package openjob

import "github.com/lightwork-market/lightwork/market/job"

// RetryLater is all that a buyer can do about CodeInternal; what went wrong is in the
// provider's log.
const RetryLater = "nothing was taken; ask again later, or another provider"

// End is the error of a step after which its job ends: where the job goes, why, and what
// becomes of the money. Whether an engagement fee is owed back follows from the reason.
type End struct {
	State  job.State
	Reason job.Reason
	// Cancel says that the job's invoices are to be cancelled first, and that what came
	// for them is owed to the buyer.
	Cancel bool
	// BackMsats is what of it has gone back to the buyer before; with Cancel.
	BackMsats int64
	// CameMsats is what came for the job, is known already, and is owed to the buyer.
	CameMsats int64
}

func (e *End) Error() string { return e.Reason.String() }

// GiveBack ends a job whose invoices may be open or paid: the buyer gets back what came.
func GiveBack(to job.State, code job.Code, detail string) error {
	return &End{State: to, Reason: job.Because(code, detail), Cancel: true}
}

// Close ends a job whose invoices are done with. cameMsats came for it, and are owed.
func Close(to job.State, code job.Code, detail string, cameMsats int64) error {
	return &End{State: to, Reason: job.Because(code, detail), CameMsats: cameMsats}
}

// Delivered ends a job that an earlier life has delivered. The buyer was told then, and
// nothing is owed.
func Delivered() error {
	return &End{State: job.StateFailed, Reason: job.Because(job.CodeRestored, "delivered and paid after the backup that this database comes from")}
}

// FailedBefore ends a job that an earlier life has ended. backMsats went back to the buyer
// then.
func FailedBefore(backMsats int64) error {
	return &End{
		State: job.StateFailed, Reason: job.Because(job.CodeRestored, "it failed after the backup that this database comes from"),
		Cancel: true, BackMsats: backMsats,
	}
}
