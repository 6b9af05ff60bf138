package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/internal/wholefile"
)

const (
	// lookEvery is how often conditions are looked at.
	lookEvery = 15 * time.Second
	// maxRaised bounds the alerts at a time, and maxQueue the messages that wait for a
	// channel.
	maxRaised = 64
	maxQueue  = 100
	// quietFirst is how long the second message about the same condition within a day
	// waits after the first; it doubles up to quietMost.
	quietFirst = time.Minute
	quietMost  = 6 * time.Hour
	calm       = 24 * time.Hour
	// sendTime bounds one attempt to tell a channel; between attempts the pause
	// doubles from sendAgain up to sendMost.
	sendTime  = 30 * time.Second
	sendAgain = 5 * time.Second
	sendMost  = time.Hour
	// maxFile bounds the file, in bytes.
	maxFile = 1 << 20
)

// patient are the kinds that must be so at two looks in a row: connections come and go.
var patient = map[Kind]bool{CannotPay: true, CannotInvoice: true, RelayGone: true}

// Channel is a way to the owner.
type Channel struct {
	Name string
	Send func(ctx context.Context, m Message) error
}

// Config says where a Desk keeps what it knows, and whom it tells.
type Config struct {
	File     string // where the alerts are kept; its folder must be there
	Node     string // the node's name
	Channels []Channel
	Log      *slog.Logger
}

// known is a condition that is so, or was lately.
type known struct {
	Alert
	Holds  bool      `json:"holds"`  // it is so
	Looks  int       `json:"looks"`  // how often in a row it was found so; at most 2
	Raised bool      `json:"raised"` // it was told, and its end was not
	Times  int       `json:"times"`  // how often it was raised, until a calm day
	ToldAt time.Time `json:"told_at,omitzero"`
}

// kept is the file's content.
type kept struct {
	Known  []known              `json:"known"`
	Queues map[string][]Message `json:"queues"` // by channel
}

// Desk raises alerts and tells the channels.
type Desk struct {
	cfg Config

	mu    sync.Mutex
	known map[string]*known // by kind and what it is about
	queue map[string][]Message
	wake  map[string]chan struct{} // cap 1; of each channel
	file  []byte                   // what was last written
}

// New reads what was raised before. A file that cannot be read is begun anew.
func New(cfg Config) *Desk {
	d := &Desk{cfg: cfg, known: map[string]*known{}, queue: map[string][]Message{}, wake: map[string]chan struct{}{}}
	before, err := read(cfg.File)
	if err != nil {
		cfg.Log.Warn("alerts of before cannot be read; they are raised again", "err", err)
	}
	for _, k := range before.Known {
		d.known[id(k.Kind, k.Of)] = &k
	}
	for _, c := range cfg.Channels {
		d.queue[c.Name], d.wake[c.Name] = before.Queues[c.Name], make(chan struct{}, 1)
	}
	return d
}

func id(kind Kind, of string) string { return string(kind) + " " + of }

// read reads the file; nothing if there is none.
func read(file string) (k kept, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil {
		err = hashing.UnmarshalKnown(text, &k)
	}
	if err != nil {
		return kept{}, err
	}
	return k, nil
}

// List are the alerts that a file says are raised, oldest first.
func List(file string) ([]Alert, error) {
	k, err := read(file)
	list := []Alert{}
	for _, one := range k.Known {
		if one.Raised {
			list = append(list, one.Alert)
		}
	}
	slices.SortStableFunc(list, func(a, b Alert) int { return a.Since.Compare(b.Since) })
	return list, err
}

// Serve looks at the conditions, and tells the channels of what begins and ends, until ctx
// ends. look says what is so, and which kinds it could look at: what is raised of another
// stays as it is.
func (d *Desk) Serve(ctx context.Context, look func(ctx context.Context) (now []Condition, looked []Kind)) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	for _, c := range d.cfg.Channels {
		sending.Go(func() { d.serveChannel(ctx, c) })
	}

	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, looked := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		d.update(time.Now().UTC(), now, looked)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// update compares what is so with what was told, and queues what is to be told.
func (d *Desk) update(at time.Time, now []Condition, looked []Kind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	holds := map[string]bool{}
	for _, c := range now {
		c = c.bounded()
		key := id(c.Kind, c.Of)
		if !slices.Contains(looked, c.Kind) || d.known[key] == nil && len(d.known) >= maxRaised {
			continue
		}
		holds[key] = true
		k := d.known[key]
		if k == nil {
			k = &known{}
			d.known[key] = k
		}
		if !k.Holds {
			k.Holds, k.Looks = true, 0
			if !k.Raised {
				k.Since = at
			}
		}
		k.Kind, k.Of, k.Text, k.Looks = c.Kind, c.Of, c.Text, min(k.Looks+1, 2)
		d.raise(at, k)
	}

	for key, k := range d.known {
		if holds[key] || !slices.Contains(looked, k.Kind) {
			continue
		}
		k.Holds = false
		if k.Raised {
			k.Raised = false
			d.tell(Message{State: Ended, At: at, Alert: k.Alert})
		}
		if at.Sub(k.ToldAt) > calm {
			delete(d.known, key)
		}
	}
	d.write()
}

// raise tells of a condition that was not told, once it was seen long enough and the pause
// after its last time is over.
func (d *Desk) raise(at time.Time, k *known) {
	if k.Raised || patient[k.Kind] && k.Looks < 2 {
		return
	}
	if k.Times > 0 && at.Sub(k.ToldAt) > calm {
		k.Times = 0
	}
	if k.Times > 0 && at.Sub(k.ToldAt) < min(quietFirst<<min(k.Times-1, 20), quietMost) {
		return
	}
	k.Raised, k.ToldAt = true, at
	k.Times++
	d.tell(Message{State: Raised, At: at, Alert: k.Alert})
}

// tell queues a message for each channel. Of too many the oldest are left out.
func (d *Desk) tell(m Message) {
	m.Node = d.cfg.Node
	for _, c := range d.cfg.Channels {
		queue := append(d.queue[c.Name], m)
		if over := len(queue) - maxQueue; over > 0 {
			dropped := over
			for _, left := range queue[:over] {
				dropped += left.Dropped
			}
			queue = queue[over:]
			queue[0].Dropped += dropped
		}
		d.queue[c.Name] = queue
		select {
		case d.wake[c.Name] <- struct{}{}:
		default:
		}
	}
}

// write keeps what is known. A disk that is full keeps nobody from being told.
func (d *Desk) write() {
	k := kept{Known: []known{}, Queues: d.queue}
	for _, key := range slices.Sorted(maps.Keys(d.known)) {
		k.Known = append(k.Known, *d.known[key])
	}
	text, err := json.Marshal(k)
	if err == nil && bytes.Equal(text, d.file) {
		return
	}
	if err == nil {
		err = wholefile.Write(d.cfg.File, append(slices.Clone(text), '\n'))
	}
	if d.file = text; err != nil {
		d.file = nil
		d.cfg.Log.Warn("alerts cannot be kept; after a restart they are raised again", "err", err)
	}
}

// serveChannel tells one channel what waits for it, in order. What it does not take is told
// again later, so a channel may hear a message twice.
func (d *Desk) serveChannel(ctx context.Context, c Channel) {
	for pause := sendAgain; ; {
		d.mu.Lock()
		waiting := slices.Clone(d.queue[c.Name])
		d.mu.Unlock()
		if len(waiting) == 0 {
			select {
			case <-d.wake[c.Name]:
				continue
			case <-ctx.Done():
				return
			}
		}

		sending, cancel := context.WithTimeout(ctx, sendTime)
		err := c.Send(sending, waiting[0])
		cancel()
		if err == nil {
			pause = sendAgain
			d.sent(c.Name, waiting[0])
			continue
		}
		if ctx.Err() != nil {
			return
		}
		d.cfg.Log.Warn("an alert was not told", "channel", c.Name, "kind", waiting[0].Kind, "in", pause, "err", err)
		if backoff.Wait(ctx, &pause, sendMost) != nil {
			return
		}
	}
}

// sent takes a message off a channel's queue, unless it was left out meanwhile.
func (d *Desk) sent(channel string, m Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.queue[channel]; len(q) > 0 && q[0].State == m.State && q[0].At.Equal(m.At) && q[0].Alert == m.Alert {
		d.queue[channel] = q[1:]
		d.write()
	}
}
