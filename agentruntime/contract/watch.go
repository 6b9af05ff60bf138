package contract

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// watchRule is a check that looks at the messages of all transcripts.
type watchRule struct {
	about string
	lines []string
}

// watchRules are the watches by name.
var watchRules = map[string]watchRule{
	"hello": {
		"The first message of a connection is agent.hello, with the token, the id and the version of the manifest, and protocol version 1 among those supported.",
		[]string{"OS-4.1.1.1", "OS-4.1.1.2", "OS-4.1.1.3", "OS-4.1.1.4", "OS-4.1.1.6", "OS-4.1.1.7", "OS-5.3.1", "OS-6.1.1"},
	},
	"tools": {
		"Tools are named <agent_id>/<name>, each once, and their schemas compile.",
		[]string{"OS-4.2.0.1", "OS-4.2.1.1", "OS-4.2.1.2", "OS-4.2.1.3", "OS-4.2.1.5", "OS-4.2.1.6", "OS-4.2.2.4", "OS-4.2.2.5"},
	},
	"frames": {
		"Every frame of the agent is one UTF-8 JSON object within max_frame_bytes.",
		[]string{"OS-2.1.1", "OS-2.1.2", "OS-2.1.3", "OS-2.2.3"},
	},
	"envelope": {
		"Every message of the agent has a valid envelope, an agent.* type and the fields of its type.",
		[]string{"OS-3.0.1", "OS-3.0.2", "OS-3.0.3", "OS-3.0.5", "OS-3.0.6", "OS-3.3.2", "OS-3.3.8", "OS-4.0.1"},
	},
	"message-ids": {
		"No message id occurs twice, and in_reply_to names a message of the node.",
		[]string{"OS-3.0.4", "OS-3.1.1"},
	},
	"echoed-ids": {
		"What the agent says about a call carries its request_id, correlation_id and causation_id.",
		[]string{"OS-3.1.7"},
	},
	"one-result": {
		"A call has one result, and nothing but a call has one.",
		[]string{"OS-4.3.3.8", "OS-4.4.2.2"},
	},
	"stream-order": {
		"Chunks of a call count from 1 upwards and end with done or the result.",
		[]string{"OS-4.3.2.2", "OS-4.3.2.3", "OS-4.3.2.7"},
	},
	"result-shape": {
		"A success has an object or no output and no error; a failure and a cancellation have their error in the payload.",
		[]string{"OS-4.3.3.3", "OS-4.3.3.4", "OS-4.3.3.5", "OS-4.3.3.9", "K-14"},
	},
	"heartbeat-shape": {
		"Heartbeats name the session, their uptime does not go back and no more calls are in flight than were made.",
		[]string{"OS-4.5.1.2", "OS-4.5.1.3"},
	},
	"cancel-acks": {
		"A cancel_ack is about a cancel, and accepts none for a call that was never made.",
		[]string{"OS-4.4.2.1"},
	},
	"secret": {
		"The session token is in no message but agent.hello, not in the output and not on the command line.",
		[]string{"OS-4.1.1.9", "OS-5.1.2", "OS-5.2.3", "OS-7.1.1", "OS-7.1.2"},
	},
	"no-trace": {
		"Errors hold no stack trace and no debug object.",
		[]string{"OS-3.3.3", "OS-3.3.4", "OS-3.3.7", "OS-7.4.1"},
	},
	"no-crash": {
		"The agent never dies of a signal that nobody sent.",
		[]string{"OS-4.3.1.10", "OSX-17"},
	},
}

// watches lists the rules as checks, by name.
func watches() []Check {
	var all []Check
	for name, r := range watchRules {
		all = append(all, Check{Name: name, About: r.about, Lines: r.lines})
	}
	slices.SortFunc(all, byName)
	return all
}

// maxViolations bounds what is kept of one rule.
const maxViolations = 5

// watch gathers what the sessions of a run saw.
type watch struct {
	mu         sync.Mutex
	seen       map[string]int      // by rule: how often it could have been broken
	violations map[string][]string // by rule
}

func newWatch() *watch {
	return &watch{seen: map[string]int{}, violations: map[string][]string{}}
}

func (w *watch) saw(rule string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[rule]++
}

func (w *watch) violate(rule, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[rule]++
	if len(w.violations[rule]) < maxViolations {
		w.violations[rule] = append(w.violations[rule], text)
	}
}

func (w *watch) result(c Check) Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch found := w.violations[c.Name]; {
	case len(found) > 0:
		return Result{Check: c, Status: Failed, Detail: strings.Join(found, "\n")}
	case w.seen[c.Name] == 0:
		return Result{Check: c, Status: Skipped, Detail: "the agent said nothing of the kind"}
	}
	return Result{Check: c, Status: Passed}
}

// session begins to watch one process of the agent.
func (w *watch) session(p *player) *sessionView {
	return &sessionView{
		all: w, player: p, saidIDs: map[string]bool{}, heardIDs: map[string]bool{},
		calls: map[string]*callView{}, cancels: map[string]bool{},
	}
}

// violate records that the agent breaks a rule in this session.
func (v *sessionView) violate(rule, format string, args ...any) {
	v.all.violate(rule, v.player.redact("in "+v.player.check+": "+fmt.Sprintf(format, args...)))
}
