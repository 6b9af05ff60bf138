package retention_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/server"
)

// sizeFrom is a number from the environment.
func sizeFrom(t testing.TB, name string, or int) int {
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number", name, text)
	}
	return n
}

// The sizes of what a sale leaves beside its artifacts, those of a job of the demo.
const (
	requestBytes, inputBytes, quoteBytes = 5_000, 4_300, 1_000
	feedbackBytes, quoteEventBytes       = 600, 2_000
	resultEventBytes, acceptanceBytes    = 11_000, 1_500
	receiptBytes, receiptEventBytes      = 2_200, 3_000
	outputBytes, replayBytes, saidBytes  = 2_000, 16_000, 4_000
)

// sizedEvent is an event of a job with a domain, of about that size.
func sizedEvent(j job.Job, what, domain string, size int) job.OutEvent {
	out := storetest.EventFor(j, what)
	out.Event = fmt.Appendf(nil, `{"content":%q,"tags":[["e",%q],["domain",%q]]}`, bytes.Repeat([]byte("x"), size), j.RequestID, domain)
	out.Domain = domain
	return out
}

// sized is a text that begins with a name.
func sized(name string, size int) []byte { return append([]byte(name), make([]byte, size)...) }

// year is a provider's store beside its relay's blob server, for which time passes day
// by day.
type year struct {
	t      testing.TB
	k      *storetest.DB
	stage  *retention.Stage
	upload func(context.Context, []byte) error
	dirs   []string
	size   int // of an artifact
	noise  []byte
}

func newYear(t testing.TB, size int) *year {
	t.Helper()
	y := &year{t: t, k: storetest.Open(t), size: size, noise: make([]byte, size)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(y.noise)

	key, err := relay.GenerateKey()
	storetest.Must(t, err)
	dir := t.TempDir()
	srv, err := server.New(t.Context(), server.Config{Dir: dir, Owners: []string{key.PublicKey()}, Limits: server.Limits{BlobTotalBytes: 20 << 30}})
	storetest.Must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()

	address := "http://" + ln.Addr().String()
	blobs := relay.NewBlobClient(relay.BlobConfig{Servers: []string{address}, AllowLoopback: true, AllowHTTP: true})
	t.Cleanup(func() {
		blobs.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	y.dirs = []string{y.k.Dir, dir}
	y.upload = func(ctx context.Context, data []byte) error {
		_, err := blobs.Upload(ctx, address, data, "application/octet-stream", key)
		return err
	}
	y.stage = stage(y.k, func(ctx context.Context, d hashing.Digest) error { return blobs.Delete(ctx, address, d, key) })
	return y
}

// sell takes a job to its end, with all that a sale leaves, and its artifact on the blob
// server.
func (y *year) sell(ctx context.Context, name string) error {
	j := storetest.Job(name, receipts.ModeHold)
	doc, err := json.Marshal(map[string]any{"name": name, "retention": promised(), "terms": sized("", quoteBytes*3/4)})
	if err != nil {
		return err
	}
	j.Request, j.Input, j.Relays = sized(name, requestBytes), sized(name, inputBytes), []string{"wss://a"}
	j.Quote, j.QuoteHash, j.AddedAt = doc, hashing.Bytes(doc), y.k.Now

	artifact := slices.Clone(y.noise)
	copy(artifact, storetest.HexID("%s", name))
	binary.LittleEndian.PutUint64(artifact[len(artifact)-8:], uint64(len(name)))
	replay := sized(name, replayBytes)
	r, _ := storetest.ResultOf(j, 1)
	r.Output, r.Replay, r.Artifacts = sized(name, outputBytes), hashing.Bytes(replay), []hashing.Digest{hashing.Bytes(artifact)}
	out := sizedEvent(j, "6050", "lightwork/result/v1", resultEventBytes)
	r.OutputHash, r.EventID, r.Event = hashing.Bytes(r.Output), out.EventID, out.Event

	s, k := y.k.Sales("p"), y.k
	for _, step := range []func() error{
		func() error { return s.AddJob(ctx, j) },
		func() error {
			return s.SetInvoice(ctx, j.RequestID, receipts.PurposeResult, "lnbc"+j.RequestID, payments.Hash{},
				sizedEvent(j, "quote", "lightwork/quote/v1", quoteEventBytes))
		},
		func() error {
			return s.SetAcceptance(ctx, j.RequestID, receipts.PurposeResult, sized(name, acceptanceBytes))
		},
		func() error {
			return s.SetPaid(ctx, j.RequestID, storetest.Arrived(j), storetest.DirectiveOf(j), storetest.ThreadOf(j))
		},
		func() error {
			_, err := s.Start(ctx, j.RequestID, nil, storetest.ThreadOf(j), storetest.PlanOf(j),
				sizedEvent(j, "processing", "lightwork/feedback/v1", feedbackBytes))
			return err
		},
		func() error {
			return k.Update(ctx, func(tx *store.Tx) error {
				e := storetest.Entry(storetest.ThreadOf(j), journal.RetainDays(1))
				e.RequestID = j.RequestID
				_, err := tx.AppendJournalPayload(e, sized(name, saidBytes))
				return err
			})
		},
		func() error { return s.Finish(ctx, j.RequestID, 1, r, [][]byte{replay, artifact}, out) },
		func() error { return y.upload(ctx, artifact) },
		func() error {
			return s.Settle(ctx, j.RequestID, receipts.PurposeResult, storetest.Settled(j), func(in job.Issue) (job.Issued, error) {
				return job.Issued{
					ReceiptID: "rcpt_" + j.RequestID, Receipt: sized(fmt.Sprint(in.Sequence, " of ", name), receiptBytes),
					Out: []job.OutEvent{
						sizedEvent(j, "receipt", "lightwork/receipt/v1", receiptEventBytes),
						sizedEvent(j, "success", "lightwork/feedback/v1", feedbackBytes),
					},
				}, nil
			})
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// day sells jobs, some at once, as a provider does.
func (y *year) day(n, jobs int) {
	y.t.Helper()
	y.k.Now = storetest.Start.AddDate(0, 0, n)
	var g errgroup.Group
	g.SetLimit(8)
	for i := range jobs {
		g.Go(func() error { return y.sell(y.t.Context(), fmt.Sprintf("%d of day %d", i, n)) })
	}
	storetest.Must(y.t, g.Wait())

	for sales := y.k.Sales("p"); ; {
		pending, err := sales.PendingEvents(y.t.Context(), time.Hour, 1000)
		storetest.Must(y.t, err)
		if len(pending) == 0 {
			return
		}
		acks := make([]job.Ack, len(pending))
		for i, p := range pending {
			acks[i] = job.Ack{EventID: p.EventID, Relay: p.Relays[0], OK: true, At: y.k.Now}
		}
		storetest.Must(y.t, sales.AddAcks(y.t.Context(), acks...))
	}
}

// disk is what all files of some folders take.
func (y *year) disk(dirs ...string) (sum int64) {
	y.t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				sum += info.Size()
			}
			return err
		})
		storetest.Must(y.t, err)
	}
	return sum
}

// waits are how long small updates took, one after the other, while do ran.
func (y *year) waits(do func()) (list []time.Duration) {
	y.t.Helper()
	ctx, stop := context.WithCancel(y.t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			began := time.Now()
			err := y.k.Update(context.Background(), func(tx *store.Tx) error {
				_, err := tx.Exec("INSERT INTO meta(key, value) VALUES ('year', ?1) ON CONFLICT DO UPDATE SET value = ?1", fmt.Sprint(len(list)))
				return err
			})
			if err != nil {
				return err
			}
			list = append(list, time.Since(began))
		}
		return nil
	})
	do()
	stop()
	storetest.Must(y.t, g.Wait())
	return list
}

// spread is the middle of some waits, the 99th of a hundred, and the longest.
type spread struct{ middle, p99, longest time.Duration }

func spreadOf(list []time.Duration) spread {
	slices.Sort(list)
	return spread{list[len(list)/2], list[len(list)*99/100], list[len(list)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("waits %s in the middle, %s at p99, %s at most", s.middle, s.p99, s.longest)
}

// TestAYearOnASmallDisk sells jobs day by day and prunes every night: what is large stays
// that of the dispute window, in the store and on the blob server, however long it goes
// on. Beside each prune a writer commits without a pause, and waits little longer than
// without one.
func TestAYearOnASmallDisk(t *testing.T) {
	days, daily, size := sizeFrom(t, "LIGHTWORK_YEAR_DAYS", 0), sizeFrom(t, "LIGHTWORK_YEAR_DAILY", 16), sizeFrom(t, "LIGHTWORK_YEAR_BYTES", 2_000_000)
	if days == 0 {
		days = testclass.Size(t, 12, 365, "year")
	}
	const window = 7 // days for which artifacts and blobs are promised
	if days < window+4 {
		t.Fatalf("%d days are too few", days)
	}
	y := newYear(t, size)

	var beside, alone []time.Duration
	var most, blobsToo, early int64 // bytes of the store, at most; with the blob server's; and once the window was full
	began := time.Now()
	for day := range days {
		y.day(day, daily)
		most, blobsToo = max(most, y.disk(y.dirs[0])), max(blobsToo, y.disk(y.dirs...))

		night := time.Now()
		with := y.waits(func() {
			if _, err := y.k.Prune(t.Context(), y.k.Now); err != nil {
				t.Errorf("day %d: %v", day, err)
			}
			done, err := y.stage.Run(t.Context())
			if err != nil || done.BlobsWait {
				t.Errorf("day %d: %+v, %v", day, done, err)
			}
		})
		if day >= window { // before that nothing goes
			beside = append(beside, with...)
			enough, stop := context.WithTimeout(t.Context(), min(time.Second, time.Since(night)))
			alone = append(alone, y.waits(func() { <-enough.Done() })...)
			stop()
		}

		now := y.disk(y.dirs...)
		if day == window+2 {
			early = now
		}
		large := y.k.Count(t, "SELECT count(*) FROM contents WHERE size >= ?", size)
		blobs, err := filepath.Glob(filepath.Join(y.dirs[1], "blobs", "*", "*"))
		storetest.Must(t, err)
		if want := min(day+1, window) * daily; large != want || len(blobs) < want {
			t.Fatalf("day %d: %d artifacts and %d blobs are here, want %d", day, large, len(blobs), want)
		}
		if n := y.k.Count(t, "SELECT count(DISTINCT digest) FROM content_pieces"); n > large {
			t.Fatalf("day %d: there are pieces of %d contents, want %d", day, n, large)
		}
		if testing.Verbose() && day%10 == 0 {
			t.Logf("%s: day %d: %d MB", time.Since(began).Round(time.Second), day, now>>20)
		}
	}

	growth := (y.disk(y.dirs...) - early) / int64((days-window-3)*daily)
	with, without := spreadOf(beside), spreadOf(alone)
	t.Logf("%d jobs of %d bytes: %d MB in the store at most, %d with the blob server, and %d bytes more for each further job",
		days*daily, size, most/1e6, blobsToo/1e6, growth)
	t.Logf("a writer beside %d prunes %s; alone %s", days-window, with, without)
	const logs = 64 << 20 // of the database, which do not grow with the jobs
	if disk := int64(daily)*40_000_000 + logs; days >= 365 && size >= 2_000_000 && most > disk {
		t.Errorf("the store has %d bytes, more than %d: the part of %d jobs a day in 40 GB for 1,000", most, disk, daily)
	}
	// The longest is the machine's as often as the prune's.
	if with.middle > 5*without.middle || with.p99 > 100*time.Millisecond+10*without.p99 {
		t.Errorf("a writer beside a prune %s; alone %s", with, without)
	}
}
