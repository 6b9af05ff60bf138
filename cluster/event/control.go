package event

import (
	"github.com/lightwork-market/lightwork/hashing"
)

// The keys of the control plane's records.
const (
	KeyAgent   = "agents."               // and the agent's id
	KeyCatalog = "capabilities.catalog." // and the capability's id
	KeyIndex   = "capabilities.index."   // and the capability's id
	KeyCursor  = "delivery.cursors."     // <consumerNodeId>.<sourceNodeId>
)

// MaxRecord bounds an encoded record.
const MaxRecord = 16 << 10

// Active is the status of an agent, a capability or a cursor that counts.
const Active = "active"

// AgentRecord says where an agent lives. Only its gateway writes it.
type AgentRecord struct {
	AgentID   string `json:"agentId"`
	NodeID    string `json:"nodeId"`
	Status    string `json:"status"`
	UpdatedAt Time   `json:"updatedAt"`
}

func (a *AgentRecord) check(f *fault) {
	f.agent("agentId", a.AgentID)
	f.node("nodeId", a.NodeID)
	f.oneOf("status", a.Status, Active, "inactive")
}

// Bounds of a capability's default eta, in seconds.
const (
	minEta = 30
	maxEta = 86400
)

// Catalog is the published record of a capability.
type Catalog struct {
	CapabilityID       string   `json:"capabilityId"`
	Name               string   `json:"name"`
	Version            string   `json:"version"`
	Status             string   `json:"status"`
	OwnerAgentID       string   `json:"ownerAgentId"`
	OwnerNodeID        string   `json:"ownerNodeId"`
	DelegationSkillRef SkillRef `json:"delegationSkillRef"`
	ExecutorSkillRef   SkillRef `json:"executorSkillRef"`
	ContractSchemaRef  string   `json:"contractSchemaRef"`
	DefaultEtaSeconds  int      `json:"defaultEtaSeconds"`
	PublishedAt        Time     `json:"publishedAt"`
	PublishedByAgentID string   `json:"publishedByAgentId"`
}

func (c *Catalog) check(f *fault) {
	f.capability("capabilityId", c.CapabilityID)
	f.text("name", c.Name, maxTitle)
	f.want(version.MatchString(c.Version), "version", c.Version, "version")
	f.oneOf("status", c.Status, Active, "inactive")
	f.agent("ownerAgentId", c.OwnerAgentID)
	f.node("ownerNodeId", c.OwnerNodeID)
	c.DelegationSkillRef.check(f, "delegationSkillRef")
	c.ExecutorSkillRef.check(f, "executorSkillRef")
	f.text("contractSchemaRef", c.ContractSchemaRef, maxTitle)
	f.at("publishedAt", c.PublishedAt)
	f.agent("publishedByAgentId", c.PublishedByAgentID)
	if c.DefaultEtaSeconds < minEta || c.DefaultEtaSeconds > maxEta {
		f.say("defaultEtaSeconds", "%d is not between %d and %d", c.DefaultEtaSeconds, minEta, maxEta)
	}
}

// Index says which agents serve a capability. It is computed from the catalogs and never
// written by hand.
type Index struct {
	CapabilityID     string   `json:"capabilityId"`
	EligibleAgentIDs []string `json:"eligibleAgentIds"`
	PolicyVersion    string   `json:"policyVersion"`
	UpdatedAt        Time     `json:"updatedAt"`
}

// Cursor is how far a consumer has read a source.
type Cursor struct {
	ConsumerNodeID string `json:"consumerNodeId"`
	SourceNodeID   string `json:"sourceNodeId"`
	LastSeq        uint64 `json:"lastSeq"`
	UpdatedAt      Time   `json:"updatedAt"`
	Status         string `json:"status"`
	LeaseExpiresAt Time   `json:"leaseExpiresAt"`
	Epoch          string `json:"epoch"`
}

func (c *Cursor) check(f *fault) {
	f.node("consumerNodeId", c.ConsumerNodeID)
	f.node("sourceNodeId", c.SourceNodeID)
	f.oneOf("status", c.Status, Active, "blocked", "removed")
	f.at("updatedAt", c.UpdatedAt)
	f.at("leaseExpiresAt", c.LeaseExpiresAt)
	f.id("epoch", c.Epoch)
}

// Review is an item that a person should look at: a skill did not do what it promises.
type Review struct {
	ReviewID               string   `json:"reviewId"`
	CapabilityID           string   `json:"capabilityId"`
	DelegationSkillVersion string   `json:"delegationSkillVersion"`
	ExecutorSkillVersion   string   `json:"executorSkillVersion"`
	FailureClass           string   `json:"failureClass"`
	SampleCorrIDs          []string `json:"sampleCorrIds"`
	CreatedAt              Time     `json:"createdAt"`
}

// record is what a record of the control plane can do.
type record[T any] interface {
	*T
	payload
}

// ParseRecord reads a record of the control plane, such as a Catalog. The error is a
// *Refusal.
func ParseRecord[T any, R record[T]](doc []byte) (T, error) {
	var value T
	if len(doc) > MaxRecord {
		return value, Refuse(InvalidEvent, "", "a record of %d bytes; at most %d are read", len(doc), MaxRecord)
	}
	if err := hashing.Unmarshal(doc, &value); err != nil {
		return value, Refuse(InvalidEvent, "", "%v", err)
	}
	return value, CheckRecord[T, R](&value)
}

// CheckRecord holds a record that was not read from a text.
func CheckRecord[T any, R record[T]](value *T) error {
	var f fault
	R(value).check(&f)
	return f.err()
}
