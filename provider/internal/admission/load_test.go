package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestPlacesForThoseWhoPaid: strangers, whose keys cost nothing, cannot take the
// last places for unpaid invoices.
func TestPlacesForThoseWhoPaid(t *testing.T) {
	lim := Limits{Queue: 4, QueuePerBuyer: 2, Unpaid: 4, UnpaidPerBuyer: 2, HeldPerBuyer: 1}.WithDefaults()
	l := newLoad()
	for i, s := range []struct {
		buyer   string
		known   bool
		crowded bool // before
		want    job.Code
	}{
		{"new1", false, false, ""},
		{"new2", false, false, ""},
		{"new3", false, false, ""},
		{"new4", false, true, job.CodeTooManyUnpaid},
		{"old", true, true, ""},
		{"old2", true, true, job.CodeTooManyUnpaid}, // of all
	} {
		if got := l.crowded(lim); got != s.crowded {
			t.Errorf("step %d: crowded %v", i, got)
		}
		if got := codeOf(l.enter(fmt.Sprint(i), s.buyer, s.known, receipts.ModePrepay, false, lim)); got != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
	}
}

func TestLoadLimits(t *testing.T) {
	lim := Limits{Queue: 4, QueuePerBuyer: 2, Unpaid: 3, UnpaidPerBuyer: 2, HeldPerBuyer: 1}.WithDefaults()
	type step struct {
		do    string // enter, activate, leave
		id    string
		buyer string
		mode  receipts.Mode
		want  job.Code
	}
	for name, steps := range map[string][]step{
		"unpaid per buyer": {
			{"enter", "1", "a", receipts.ModePrepay, ""},
			{"enter", "2", "a", receipts.ModePrepay, ""},
			{"enter", "3", "a", receipts.ModePrepay, job.CodeTooManyUnpaid},
			{"enter", "4", "b", receipts.ModePrepay, ""},
			{"enter", "5", "c", receipts.ModePrepay, job.CodeTooManyUnpaid}, // of all
			{"leave", "1", "", "", ""},
			{"enter", "6", "a", receipts.ModePrepay, ""},
		},
		"paid makes room among the unpaid": {
			{"enter", "1", "a", receipts.ModePrepay, ""},
			{"enter", "2", "a", receipts.ModePrepay, ""},
			{"activate", "1", "", "", ""},
			{"enter", "3", "a", receipts.ModePrepay, ""},
		},
		"queue per buyer": {
			{"enter", "1", "a", receipts.ModePrepay, ""},
			{"activate", "1", "", "", ""},
			{"enter", "2", "a", receipts.ModePostpay, ""}, // active at once
			{"enter", "3", "a", receipts.ModeFree, job.CodeOverCapacity},
		},
		"queue of all": {
			{"enter", "1", "a", receipts.ModeFree, ""},
			{"enter", "2", "b", receipts.ModeFree, ""},
			{"enter", "3", "c", receipts.ModeFree, ""},
			{"enter", "4", "d", receipts.ModeFree, ""},
			{"enter", "5", "e", receipts.ModeFree, job.CodeOverCapacity},
			{"leave", "4", "", "", ""},
			{"leave", "4", "", "", ""}, // twice is once
			{"enter", "6", "e", receipts.ModeFree, ""},
			{"enter", "7", "f", receipts.ModeFree, job.CodeOverCapacity},
		},
		"held per buyer": {
			{"enter", "1", "a", receipts.ModeHold, ""},
			{"activate", "1", "", "", ""},
			{"enter", "2", "a", receipts.ModeHold, job.CodeOverCapacity},
			{"enter", "3", "b", receipts.ModeHold, ""},
		},
		"queue of strangers": {
			{"enter", "1", "new", receipts.ModeFree, ""},
			{"enter", "2", "new", receipts.ModePostpay, ""},
			{"enter", "3", "newer", receipts.ModeFree, ""},
			{"enter", "4", "newer", receipts.ModePostpay, job.CodeOverCapacity},
			{"enter", "5", "newer", receipts.ModePrepay, ""}, // it runs once it is paid
			{"activate", "5", "", "", ""},
			{"enter", "6", "newest", receipts.ModePrepay, job.CodeOverCapacity},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoad()
			for i, s := range steps {
				switch s.do {
				case "enter":
					if got := codeOf(l.enter(s.id, s.buyer, !strings.HasPrefix(s.buyer, "new"), s.mode, false, lim)); got != s.want {
						t.Fatalf("step %d: got %q, want %q", i, got, s.want)
					}
				case "activate":
					l.activate(s.id)
				case "leave":
					l.leave(s.id)
				}
			}
			for id := range l.jobs {
				l.leave(id)
			}
			if l.all != (counts{}) || len(l.per) != 0 {
				t.Fatalf("after all left: %+v, %v", l.all, l.per)
			}
		})
	}
}

func TestLoadResume(t *testing.T) {
	l := newLoad()
	l.resume(job.Job{RequestID: "1", Buyer: "a", Mode: receipts.ModeHold, State: job.StateQuoted})
	l.resume(job.Job{RequestID: "2", Buyer: "a", Mode: receipts.ModeHold, State: job.StateRunning})
	l.resume(job.Job{RequestID: "3", Buyer: "a", Mode: receipts.ModeFree, State: job.StateQuoted})
	if want := (counts{unpaid: 1, active: 2, held: 1}); l.all != want {
		t.Fatalf("got %+v, want %+v", l.all, want)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	r := newReplies(3)
	now := time.Unix(1_700_000_000, 0)
	nobody := func() bool { return false }
	for i := range 5 {
		if got := r.allow("a", now, nobody); got != (i < 3) {
			t.Fatalf("answer %d to one key: %v", i, got)
		}
	}
	if !r.allow("a", now.Add(time.Minute), nobody) {
		t.Fatal("a minute later the key is still silenced")
	}
	answered := 0
	for i := range 1000 { // keys are free to make: the total is bounded too
		if r.allow(fmt.Sprint("key", i), now.Add(2*time.Minute), nobody) {
			answered++
		}
	}
	if answered > 30 {
		t.Fatalf("%d keys were answered at once", answered)
	}
	if at := now.Add(2 * time.Minute); r.allow("late", at, nobody) || !r.allow("paid once", at, func() bool { return true }) {
		t.Fatal("the flood took a customer's answers too")
	}
}

// codeOf is why a request is refused, "" if it is not.
func codeOf(err error) job.Code {
	var no *job.Refusal
	if errors.As(err, &no) {
		return no.Reason.Code
	}
	return ""
}
