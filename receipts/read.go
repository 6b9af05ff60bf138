package receipts

import (
	"bytes"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// This file reads documents and events fast, if their fields are exactly in canonical
// order. Any other text is left to the general parser, which is slower and words the
// errors. A form that is not handled here is therefore slower, never wrong.

// document is a document with a fast reader.
type document interface {
	Canonical() ([]byte, error)
	validate(keys keyring) error
}

// readDocument reads a document of at most maxPlain bytes that is its own
// canonical form.
func readDocument[T document, P interface {
	*T
	read(*hashing.Reader)
}](name string, doc []byte, keys keyring) (T, error) {
	var parsed, none T
	if len(doc) > maxPlain {
		return parseDocument[T](name, doc)
	}
	in := hashing.NewReader(doc)
	P(&parsed).read(in)
	if !in.Done() {
		return parseDocument[T](name, doc)
	}
	if err := parsed.validate(keys); err != nil {
		return none, err
	}

	return parsed, nil
}

// bundleEvent is an event of a bundle.
type bundleEvent struct {
	Event
	exact bool // in the form of Event.JSON
	// escapedID is computeID(true), made while reading because a bundle has tags and
	// content in the form that is hashed; "" if ParseEvent read the event.
	escapedID string
}

// readEvent reads an event of a bundle.
func readEvent(doc []byte) (ev bundleEvent, err error) {
	in := hashing.NewReader(doc)
	tags, content := ev.read(in)
	if in.Done() && len(doc) <= maxDocument && ev.withinBounds() {
		if err = ev.checkShape(); err == nil {
			ev.exact, ev.escapedID = true, ev.hash(tags, content)
		}
		return ev, err
	}
	ev = bundleEvent{}
	ev.Event, err = ParseEvent(doc, maxDocument)
	ev.exact = err == nil && string(ev.JSON()) == string(doc)
	return ev, err
}

// checkID is Event.checkID, but uses escapedID if possible.
func (ev *bundleEvent) checkID() error {
	if ev.ID == ev.escapedID {
		return nil
	}
	return ev.Event.checkID()
}

func (e *Event) withinBounds() bool {
	return len(e.Tags) <= maxTags && !slices.ContainsFunc(e.Tags, func(tag []string) bool { return len(tag) > maxTagItems })
}

func (r *Receipt) read(in *hashing.Reader) {
	in.Open("{")
	in.Name("acceptance_event_id")
	r.AcceptanceEventID = in.OptionalText()

	in.Name("agreement_hash")
	r.AgreementHash = in.OptionalDigest()
	in.Name("amount_msats")
	r.AmountMsats = in.Integer()
	in.Name("approval_rule_id")
	r.ApprovalRuleID = in.OptionalText()
	in.Name("asset_id")
	r.AssetID = in.Text()
	in.Name("bolt11")
	r.BOLT11 = in.Text()
	in.Name("buyer_id")
	r.BuyerID = in.Text()
	in.Name("delivery")
	r.Delivery = Delivery(in.Text())
	in.Name("job_hash")
	r.JobHash = in.Digest()
	in.Name("mode")
	r.Mode = Mode(in.Text())
	in.Name("output_hash")
	r.OutputHash = in.Digest()
	in.Name("payee_node")
	r.PayeeNode = in.Text()
	in.Name("payment_hash")
	r.PaymentHash = in.Text()
	in.Name("payment_proof")
	in.Open("{")
	in.Name("type")
	r.PaymentProof.Type = in.Text()
	in.Name("value")
	r.PaymentProof.Value = in.Text()
	in.Close("}")
	in.Name("plan_hash")
	r.PlanHash = in.Digest()
	in.Name("policy_bundle_id")
	r.PolicyBundleID = in.Digest()
	in.Name("previous_receipt_hash")
	r.PreviousReceiptHash = in.OptionalDigest()
	in.Name("provider_id")
	r.ProviderID = in.Text()
	in.Name("quote_hash") // a document with a purpose before it is left to the parser
	r.QuoteHash = in.Digest()
	in.Name("rail")
	r.Rail = payments.Rail(in.Text())
	in.Name("receipt_id")
	r.ReceiptID = in.Text()
	in.Name("redacted_trajectory_hash")
	r.RedactedTrajectoryHash = in.Digest()
	in.Name("replay_hash")
	r.ReplayHash = in.Digest()
	in.Name("request_event_id")
	r.RequestEventID = in.Text()
	in.Name("result_event_id")
	r.ResultEventID = in.Text()
	in.Name("schema_id")
	r.SchemaID = in.Text()
	in.Name("sequence")
	r.Sequence = in.Integer()
	in.Name("session_id")
	r.SessionID = in.Text()
	in.Name("timestamp")
	r.Timestamp = in.Text()
	in.Name("trajectory_hash")
	r.TrajectoryHash = in.Digest()
	in.Name("verification")
	in.Open("{")
	in.Name("adjudication")
	r.Verification.Adjudication = schemas.Adjudication(in.Text())
	in.Name("redundancy")
	r.Verification.Redundancy = in.Integer()
	in.Name("tier")
	r.Verification.Tier = in.Text()
	in.Close("}")
	in.Name("version")
	r.Version = in.Int()
	in.Close("}")
}

func (q *Quote) read(in *hashing.Reader) {
	in.Open("{")
	in.Name("buyer")
	q.Buyer = in.Text()
	in.Name("cancellation")
	q.Cancellation = in.Text()
	in.Name("delivery")
	q.Delivery = Delivery(in.Text())
	in.Name("expires_at")
	q.ExpiresAt = in.Text()
	in.Name("inputs")
	in.Open("[")
	q.Inputs = []string{}
	for in.More() {
		q.Inputs = append(q.Inputs, in.Text())
	}

	in.Close("]")
	in.Name("job_hash")
	q.JobHash = in.Digest()
	in.Name("mode")
	q.Mode = Mode(in.Text())
	in.Name("nonce")
	q.Nonce = in.Text()
	in.Name("payee_node")
	q.PayeeNode = in.OptionalText()
	in.Name("payment_hash")
	q.PaymentHash = in.OptionalText()
	in.Name("policy_bundle_id")
	q.PolicyBundleID = in.Digest()
	in.Name("price_msats")
	q.PriceMsats = in.Integer()
	in.Name("provider")
	q.Provider = in.Text()
	in.Name("purpose")
	q.Purpose = Purpose(in.Text())
	in.Name("request_id")
	q.RequestID = in.Text()
	if bytes.HasPrefix(in.Unread(), []byte(`,"retention":`)) {
		in.Name("retention")
		q.Retention = new(Retention)
		q.Retention.read(in)
	}
	in.Name("schema_id")
	q.SchemaID = in.Text()
	in.Name("version")
	q.Version = in.Int()
	in.Close("}")
}

func (r *Retention) read(in *hashing.Reader) {
	in.Open("{")
	in.Name("artifacts_ms")
	r.ArtifactsMs = readKeep(in)
	in.Name("blobs_ms")
	r.BlobsMs = readKeep(in)
	in.Name("dispute_window_ms")
	r.DisputeMs = in.Integer()
	in.Name("events_ms")
	r.EventsMs = readKeep(in)
	in.Name("journals_ms")
	r.JournalsMs = readKeep(in)
	in.Name("results_ms")
	r.ResultsMs = readKeep(in)
	in.Name("trajectories_ms")
	r.TrajectoriesMs = readKeep(in)
	in.Close("}")
}

// readKeep leaves a 0, which is no spelling of for ever, to the general parser.
func readKeep(in *hashing.Reader) Keep {
	if in.Take("null") || bytes.HasPrefix(in.Unread(), []byte("0")) {
		return 0
	}
	return Keep(in.Integer())
}

func (a *Acceptance) read(in *hashing.Reader) {
	in.Open("{")
	in.Name("approval_rule_id")
	a.ApprovalRuleID = in.OptionalText()
	in.Name("payment_hash")
	a.PaymentHash = in.Text()
	in.Name("price_msats")
	a.PriceMsats = in.Integer()
	in.Name("quote_hash")
	a.QuoteHash = in.Digest()
	in.Name("request_id")
	a.RequestID = in.Text()
	in.Name("version")
	a.Version = in.Int()
	in.Close("}")
}

func (s *Seal) read(in *hashing.Reader) {
	in.Open("{")
	in.Name("agreement_hash")
	s.AgreementHash = in.OptionalDigest()
	in.Name("contents")
	in.Open("[")

	for in.More() {
		in.Open("{")
		var c SealedContent
		in.Name("digest")
		c.Digest = in.Digest()
		in.Name("role")
		c.Role = in.Text()
		in.Name("size")
		c.Size = in.Integer()
		in.Close("}")
		s.Contents = append(s.Contents, c)
	}

	in.Close("]")
	in.Name("output_hash")
	s.OutputHash = in.Digest()
	in.Name("plan_hash")
	s.PlanHash = in.Digest()
	in.Name("redacted_trajectory_hash")
	s.RedactedTrajectoryHash = in.Digest()
	in.Name("replay_hash")
	s.ReplayHash = in.Digest()
	in.Name("salt")
	s.Salt = in.Text()
	in.Name("trajectory_hash")
	s.TrajectoryHash = in.Digest()
	in.Name("version")
	s.Version = in.Int()
	in.Close("}")
}

// read also returns tags and content as they are written.
func (e *Event) read(in *hashing.Reader) (tags, content []byte) {
	in.Open("{")
	in.Name("id")
	e.ID = in.Text()
	in.Name("pubkey")
	e.PubKey = in.Text()
	in.Name("created_at")
	e.CreatedAt = in.Integer()
	in.Name("kind")
	e.Kind = in.Int()
	in.Name("tags")
	from := in.Unread()
	in.Open("[")
	e.Tags = make([][]string, 0, usualTags)

	items := make([]string, 0, usualItems) // of all tags
	for in.More() {
		first := len(items)
		items = readTag(in, items)
		e.Tags = append(e.Tags, items[first:len(items):len(items)])
	}

	in.Close("]")
	tags = from[:len(from)-len(in.Unread())]
	in.Name("content")
	from = in.Unread()
	e.Content = in.Text()
	content = from[:len(from)-len(in.Unread())]
	in.Name("sig")
	e.Sig = in.Text()
	in.Close("}")
	return tags, content
}

// Room for the tags of a usual event.
const (
	usualTags  = 16
	usualItems = 2 * usualTags
)

// readTag appends the items of a tag.
func readTag(in *hashing.Reader, items []string) []string {
	in.Open("[")
	for in.More() {
		items = append(items, in.Text())
	}
	in.Close("]")
	return items
}
