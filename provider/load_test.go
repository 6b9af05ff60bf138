package provider

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/receipts"
)

// TestPlacesForThoseWhoPaid: strangers, whose keys cost nothing, cannot take the
// last places for unpaid invoices.
func TestPlacesForThoseWhoPaid(t *testing.T) {
	lim := Limits{Queue: 4, QueuePerBuyer: 2, Unpaid: 4, UnpaidPerBuyer: 2, HeldPerBuyer: 1}.withDefaults()
	l := newLoad()
	for i, s := range []struct {
		buyer   string
		known   bool
		crowded bool // before
		want    Code
	}{
		{"new1", false, false, ""},
		{"new2", false, false, ""},
		{"new3", false, false, ""},
		{"new4", false, true, CodeTooManyUnpaid},
		{"old", true, true, ""},
		{"old2", true, true, CodeTooManyUnpaid}, // of all
	} {
		if got := l.crowded(lim); got != s.crowded {
			t.Errorf("step %d: crowded %v", i, got)
		}
		if got := l.enter(fmt.Sprint(i), s.buyer, s.known, receipts.ModePrepay, false, lim); got.Code != s.want {
			t.Errorf("step %d: got %q, want %q", i, got.Code, s.want)
		}
	}
}

func TestLoadLimits(t *testing.T) {
	lim := Limits{Queue: 4, QueuePerBuyer: 2, Unpaid: 3, UnpaidPerBuyer: 2, HeldPerBuyer: 1}.withDefaults()
	type step struct {
		do    string // enter, activate, leave
		id    string
		buyer string
		mode  receipts.Mode
		want  Code
	}
	for name, steps := range map[string][]step{
		"unpaid per buyer": {
			{"enter", "1", "a", receipts.ModePrepay, ""},
			{"enter", "2", "a", receipts.ModePrepay, ""},
			{"enter", "3", "a", receipts.ModePrepay, CodeTooManyUnpaid},
			{"enter", "4", "b", receipts.ModePrepay, ""},
			{"enter", "5", "c", receipts.ModePrepay, CodeTooManyUnpaid}, // of all
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
			{"enter", "3", "a", receipts.ModeFree, CodeOverCapacity},
		},
		"queue of all": {
			{"enter", "1", "a", receipts.ModeFree, ""},
			{"enter", "2", "b", receipts.ModeFree, ""},
			{"enter", "3", "c", receipts.ModeFree, ""},
			{"enter", "4", "d", receipts.ModeFree, ""},
			{"enter", "5", "e", receipts.ModeFree, CodeOverCapacity},
			{"leave", "4", "", "", ""},
			{"leave", "4", "", "", ""}, // twice is once
			{"enter", "6", "e", receipts.ModeFree, ""},
			{"enter", "7", "f", receipts.ModeFree, CodeOverCapacity},
		},
		"held per buyer": {
			{"enter", "1", "a", receipts.ModeHold, ""},
			{"activate", "1", "", "", ""},
			{"enter", "2", "a", receipts.ModeHold, CodeOverCapacity},
			{"enter", "3", "b", receipts.ModeHold, ""},
		},
		"queue of strangers": {
			{"enter", "1", "new", receipts.ModeFree, ""},
			{"enter", "2", "new", receipts.ModePostpay, ""},
			{"enter", "3", "newer", receipts.ModeFree, ""},
			{"enter", "4", "newer", receipts.ModePostpay, CodeOverCapacity},
			{"enter", "5", "newer", receipts.ModePrepay, ""}, // it runs once it is paid
			{"activate", "5", "", "", ""},
			{"enter", "6", "newest", receipts.ModePrepay, CodeOverCapacity},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoad()
			for i, s := range steps {
				switch s.do {
				case "enter":
					if got := l.enter(s.id, s.buyer, !strings.HasPrefix(s.buyer, "new"), s.mode, false, lim); got.Code != s.want {
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
	l.resume(Job{RequestID: "1", Buyer: "a", Mode: receipts.ModeHold, State: StateQuoted})
	l.resume(Job{RequestID: "2", Buyer: "a", Mode: receipts.ModeHold, State: StateRunning})
	l.resume(Job{RequestID: "3", Buyer: "a", Mode: receipts.ModeFree, State: StateQuoted})
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

func TestClipKeepsRunesWhole(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 5, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"日本", 4, "日"}, {"日", 2, ""}} {
		if got := clip(tt.in, tt.n); got != tt.want {
			t.Errorf("clip(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}
